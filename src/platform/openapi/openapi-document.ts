import { Logger, type Type } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { PUBLIC_EXTENSION } from '../auth/public.decorator.js';
import type { Config } from '../config/config.js';
import type { Product } from '../config/product.js';
import { ERROR_CODES, type FeatureErrorCode } from '../errors/error-codes.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { PLAIN_TEXT, toTextExample } from '../validation/plain-text.js';
import { closeRequestBodies } from './closed-request-body.js';
import { resolveClasses } from './schema-references.js';
import {
  COMMON_HEADERS,
  describeHeaders,
  describeStandardResponses,
  type Operation,
  STANDARD_HEADERS,
  STANDARD_RESPONSES,
} from './standard-responses.js';

export interface Tag {
  readonly name: string;
  readonly description: string;
}

/** What features contribute to the OpenAPI document. */
export interface FeatureDocs {
  /** In the order in which Swagger UI shows them. */
  readonly tags: readonly Tag[];
  readonly errorCodes: readonly FeatureErrorCode[];
}

/** The path prefix of the published operations, in which each base address ends. */
const API_PREFIX = '/v1';

/** The server that a document was read from, as a relative URL. */
export const THIS_DEPLOYMENT = { url: API_PREFIX, description: 'This deployment' };

/** Creates the table, in Markdown, of the error codes of the platform and of features. */
export function createErrorTable(errorCodes: readonly FeatureErrorCode[] = []): string {
  const featureCodes = errorCodes.map((row) => [row.code, row] as const);
  const rows = [...Object.entries(ERROR_CODES), ...featureCodes].map(
    ([code, row]) => `| \`${code}\` | ${row.status} | ${row.description} |`,
  );
  return `| Code | Status | Meaning |
|---|---|---|
${rows.join('\n')}
| the reason phrase, such as \`BAD_GATEWAY\` | any other | an error that only its message describes |`;
}

function createDescription(
  { description, guide = [] }: Product,
  errorCodes: readonly FeatureErrorCode[],
): string {
  const [page] = guide;
  const help =
    page === undefined
      ? 'Pages describe [errors](/docs/errors.md) and [limits](/docs/api-behaviour.md).'
      : `The [client guide](${page}) has examples.`;
  return `${description} Every operation requires an API key, which the
operator of the service issues. Press Authorize and paste it, without "Bearer"; the browser stores it until you log
out. ${help} The document: [JSON](/openapi.json), [YAML](/openapi.yaml).

<details><summary>Error codes</summary>

Every error response has the body \`{ code, message, status }\`, with one of these codes:

${createErrorTable(errorCodes)}

</details>

<details><summary>Response headers</summary>

Every response has \`X-Request-Id\`; responses to a key with a rate limit also have the others:

| Header | Meaning |
|---|---|
${COMMON_HEADERS.map((name) => `| \`${name}\` | ${STANDARD_HEADERS[name].description} |`).join('\n')}

</details>
`;
}

/** Creates the OpenAPI document of the application. */
export function createDocument(
  app: NestExpressApplication,
  config: Config,
  docs: FeatureDocs,
): OpenAPIObject {
  const document = scanControllers(app, createBase(config, docs));
  document.paths = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) =>
      // Each server URL ends in the version, and the paths continue it. Paths of another version have servers of their own,
      // whose URLs end before the version.
      `${path}/`.startsWith(`${API_PREFIX}/`)
        ? [path.slice(API_PREFIX.length) || '/', item]
        : [path, { ...item, servers: document.servers!.map(withoutVersion) }],
    ),
  );
  const operations: Operation[] = [];
  for (const item of Object.values(document.paths)) {
    for (const method of ['get', 'put', 'post', 'delete', 'patch'] as const) {
      const operation = item[method];
      if (operation === undefined) continue;
      applyExtensions(operation);
      removeTextExamples(operation);
      describeStandardResponses(operation, method);
      operations.push(operation);
    }
  }
  closeRequestBodies(document, operations);
  addComponents(document, 'responses', STANDARD_RESPONSES);
  addComponents(document, 'headers', describeHeaders(config.product));
  return document;
}

/** Creates the document of the controllers, again until it has the schemas of all classes to which it refers. */
function scanControllers(
  app: NestExpressApplication,
  base: Omit<OpenAPIObject, 'paths'>,
): OpenAPIObject {
  const classes = new Set<Type>([ErrorBody]);
  for (;;) {
    const extraModels = [...classes];
    const document = refuseDuplicates(() =>
      SwaggerModule.createDocument(app, base, { extraModels }),
    );
    const resolved = resolveClasses(document, classes);
    if (classes.size === extraModels.length) return resolved;
  }
}

/**
 * Runs the scan of the controllers, and throws what Nest only warns of.
 *
 * @throws {TypeError} if two DTOs with different properties have the same name: the document would contain one of them
 */
function refuseDuplicates(scan: () => OpenAPIObject): OpenAPIObject {
  const warn = Logger.warn.bind(Logger);
  Logger.warn = (message: string): void => {
    const [, name] = /^Duplicate DTO detected: "(.+?)"/.exec(message) ?? [];
    if (name === undefined) warn(message);
    else throw new TypeError(`Two DTOs with different properties are named ${name}: rename one.`);
  };
  try {
    return scan();
  } finally {
    Logger.warn = warn;
  }
}

/** Adds components to the document, except unused ones, which openapi-typescript rejects. */
function addComponents(
  document: OpenAPIObject,
  kind: 'responses' | 'headers',
  components: Readonly<Record<string, object | undefined>>,
): void {
  const json = JSON.stringify(document);
  const used = Object.entries(components).filter(([name]) =>
    json.includes(`"#/components/${kind}/${name}"`),
  );
  document.components = { ...document.components, [kind]: Object.fromEntries(used) };
}

function withoutVersion({ url, ...others }: { url: string }) {
  return { url: url.slice(0, -API_PREFIX.length) || '/', ...others };
}

/** Creates the parts of the document that do not come from the controllers. */
function createBase(
  { product, publicBaseUrl, stagingBaseUrl, contact }: Config,
  { tags, errorCodes }: FeatureDocs,
): Omit<OpenAPIObject, 'paths'> {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.0.3')
    .setTitle(product.title)
    .setDescription(createDescription(product, errorCodes))
    .setVersion(product.version)
    .addBearerAuth(
      {
        type: 'http',
        bearerFormat: 'API key',
        description:
          'An API key, which the operator of the service issues, without "Bearer". Operations with GET require the scope `read`, others `write`, unless they say otherwise; a key without it gets 403.',
      },
      'apiKey',
    )
    .addSecurityRequirements('apiKey');
  for (const { name, description } of tags) builder.addTag(name, description);
  // Linters require the name of the environment and `x-internal`.
  const addServer = (url: string, description: string) =>
    builder.addServer(url, description, undefined, { 'x-internal': false });
  if (publicBaseUrl === undefined)
    addServer(API_PREFIX, 'This deployment, local or without PUBLIC_BASE_URL');
  else addServer(publicBaseUrl, 'Production');
  if (stagingBaseUrl !== undefined) addServer(stagingBaseUrl, 'Staging');
  const { info, ...base } = builder.build();
  // The builder sets an empty contact.
  return { ...base, info: { ...info, contact } };
}

/** The sentences that `@Deprecated`, `@Stability` and `@RequireScope` add to the description of an operation. */
const NOTES = {
  'x-deprecated-since': (date: string) => `**Deprecated** since ${date}.`,
  'x-sunset': (date: string) => `**Sunset** on ${date}: from then on it returns 410.`,
  'x-stability': (stability: string) => `**Stability: ${stability}.** It may still change.`,
  'x-required-scope': (scope: string) => `Requires the scope \`${scope}\`.`,
};

/** Removes the default examples from parameters that are strings, because Swagger UI would send them. */
function removeTextExamples({ parameters = [] }: Operation): void {
  for (const parameter of parameters) {
    const schema = 'schema' in parameter ? parameter.schema : undefined;
    if (schema === undefined || '$ref' in schema || schema.pattern !== PLAIN_TEXT) continue;
    if (schema.example === toTextExample(schema.minLength, schema.maxLength))
      Reflect.deleteProperty(schema, 'example');
  }
}

/** Completes an operation with what its decorators declare as extensions. Without `@Public`, it requires an API key. */
function applyExtensions(operation: Operation): void {
  const declared = new Map(Object.entries(operation)) as ReadonlyMap<string, string>;
  const notes = Object.entries(NOTES).flatMap(([name, toNote]) =>
    declared.has(name) ? toNote(declared.get(name)!) : [],
  );
  operation.description =
    [operation.description, ...notes].filter(Boolean).join('\n\n') || undefined;
  if (declared.has('x-deprecated-since')) operation.deprecated = true;
  Reflect.deleteProperty(operation, 'security');
  if (declared.has(PUBLIC_EXTENSION)) operation.security = [];
  Reflect.deleteProperty(operation, PUBLIC_EXTENSION);
}
