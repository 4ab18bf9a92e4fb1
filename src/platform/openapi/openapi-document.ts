import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { PUBLIC_EXTENSION } from '../auth/public.decorator.js';
import type { Config } from '../config/config.js';
import { ERROR_CODES } from '../errors/error-codes.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { RESPONSE_HEADER } from '../http/responses/response-headers.js';
import {
  describeStandardResponses,
  type Operation,
  STANDARD_HEADERS,
} from './standard-responses.js';

type SchemaOrReference = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string];
type Headers = NonNullable<NonNullable<OpenAPIObject['components']>['headers']>;

/** A tag of operations. */
export interface Tag {
  readonly name: string;
  readonly description: string;
}

/** The path prefix of the published operations, with which each base address ends. */
export const API_PREFIX = '/v1';

/** The server of a document, at whatever address it was read. */
export const THIS_DEPLOYMENT = { url: API_PREFIX, description: 'This deployment' };

const DESCRIPTION = `Lists and creates the categories of a pet store. Every operation requires an API key, which the
operator of the service issues. Press Authorize and paste it, without "Bearer"; the browser stores it until you log
out. The document: [JSON](/openapi.json), [YAML](/openapi.yaml).

<details><summary>Error codes</summary>

Every error response has the body \`{ code, message, status }\`, with one of these codes:

| Code | Status | Meaning |
|---|---|---|
${Object.entries(ERROR_CODES)
  .map(([code, { status, description }]) => `| \`${code}\` | ${status} | ${description} |`)
  .join('\n')}

</details>
`;

/**
 * Creates the OpenAPI document of the application.
 *
 * @param tags the tags of the features, in the order in which Swagger UI shows them
 */
export function createDocument(
  app: NestExpressApplication,
  config: Config,
  tags: readonly Tag[],
): OpenAPIObject {
  const document = SwaggerModule.createDocument(app, createBase(config, tags), {
    extraModels: [ErrorBody],
  });
  // The path of each server ends in the version, so the paths of the document start after it. The paths
  // of another version have servers of their own, which end before it.
  const unversionedServers = (document.servers ?? []).map(({ url, description }) => ({
    url: url.slice(0, -API_PREFIX.length) || '/',
    description,
  }));
  document.paths = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) =>
      path.startsWith(`${API_PREFIX}/`)
        ? [path.slice(API_PREFIX.length), item]
        : [path, { ...item, servers: unversionedServers }],
    ),
  );
  for (const item of Object.values(document.paths)) {
    for (const method of ['get', 'put', 'post', 'delete', 'patch'] as const) {
      const operation = item[method];
      if (operation === undefined) continue;
      appendLifecycleNotes(operation);
      describePublicAccess(operation);
      describeHeaders(operation);
      if (method === 'get') describeRevalidation(operation);
      describeStandardResponses(operation, method);
      disallowAdditionalProperties(operation, document);
    }
  }
  document.components = { ...document.components, headers: getReferencedHeaders(document.paths) };
  return document;
}

/** Returns the standard headers that the operations refer to: openapi-typescript rejects unused components. */
function getReferencedHeaders(paths: OpenAPIObject['paths']): Headers {
  const json = JSON.stringify(paths);
  return Object.fromEntries(
    Object.entries(STANDARD_HEADERS).filter(([name]) =>
      json.includes(`"#/components/headers/${name}"`),
    ),
  );
}

/** The parts of the document that do not come from the controllers. */
function createBase(
  { publicBaseUrl, stagingBaseUrl }: Config,
  tags: readonly Tag[],
): Omit<OpenAPIObject, 'paths'> {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.0.3')
    .setTitle('Petstore')
    .setDescription(DESCRIPTION)
    .setVersion('1.0.0')
    .addBearerAuth(
      {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'API key',
        description:
          'An API key, which the operator of the service issues, without "Bearer". Operations with GET require the scope `read`, others `write`, unless they say otherwise; a key without it gets 403.',
      },
      'apiKey',
    )
    .addSecurityRequirements('apiKey');
  for (const { name, description } of tags) builder.addTag(name, description);
  if (publicBaseUrl === undefined)
    builder.addServer(THIS_DEPLOYMENT.url, THIS_DEPLOYMENT.description);
  else builder.addServer(publicBaseUrl, 'Production');
  if (stagingBaseUrl !== undefined) builder.addServer(stagingBaseUrl, 'Staging');
  return builder.build();
}

/** Appends what `@Deprecated` and `@Stability` declare to the description, where Swagger UI shows it. */
function appendLifecycleNotes(operation: Operation): void {
  const {
    'x-deprecated-since': since,
    'x-sunset': sunset,
    'x-stability': stability,
  } = operation as Operation &
    Partial<Record<`x-${'deprecated-since' | 'sunset' | 'stability'}`, string>>;
  const notes = [operation.description];
  if (since !== undefined) {
    operation.deprecated = true;
    notes.push(`**Deprecated** since ${since}.`);
  }
  if (sunset !== undefined) notes.push(`**Sunset** on ${sunset}: from then on it returns 410.`);
  if (stability !== undefined) notes.push(`**Stability: ${stability}.** It may still change.`);
  operation.description = notes.filter(Boolean).join('\n\n');
}

/** Describes what `@Public` declares: the operation requires no key. */
function describePublicAccess(operation: Operation & { [PUBLIC_EXTENSION]?: true }): void {
  if (operation[PUBLIC_EXTENSION] === undefined) return;
  delete operation[PUBLIC_EXTENSION];
  operation.security = [];
}

/** Adds the headers that decorators declare to the successful responses. */
function describeHeaders(operation: Operation): void {
  const headers: Headers = {};
  for (const [extension, header] of Object.entries(operation)) {
    if (!extension.startsWith(RESPONSE_HEADER)) continue;
    headers[extension.slice(RESPONSE_HEADER.length)] = header as Headers[string];
    Reflect.deleteProperty(operation, extension);
  }
  if (Object.keys(headers).length === 0) return;
  for (const [status, response] of Object.entries(operation.responses)) {
    if (!status.startsWith('2') || response === undefined || '$ref' in response) continue;
    response.headers = { ...headers, ...response.headers };
  }
}

/** Adds the conditional request of a GET whose response has an ETag. */
function describeRevalidation(operation: Operation): void {
  const { parameters = [], responses } = operation;
  const ok = responses['200'];
  const etag = ok !== undefined && 'headers' in ok ? ok.headers?.['ETag'] : undefined;
  if (etag === undefined) return;
  operation.parameters = [
    ...parameters,
    {
      name: 'If-None-Match',
      in: 'header',
      required: false,
      description: 'The ETag of the version that the client has.',
      // Without an example, which Swagger UI would send.
      schema: { type: 'string', maxLength: 1000 },
    },
  ];
  responses['304'] = {
    description: 'Not modified: the resource still matches If-None-Match.',
    ...responses['304'],
    headers: { ETag: etag },
  };
}

/** Closes the schemas of a request body, at every depth, as the validation rejects unknown properties. */
function disallowAdditionalProperties(
  { requestBody }: Operation,
  { components }: OpenAPIObject,
): void {
  if (requestBody === undefined || '$ref' in requestBody) return;
  const closed = new Set<SchemaOrReference>();
  const close = (reference: SchemaOrReference | undefined): void => {
    const schema =
      reference !== undefined && '$ref' in reference
        ? components?.schemas?.[reference.$ref.split('/').at(-1)!]
        : reference;
    if (schema === undefined || '$ref' in schema || closed.has(schema)) return;
    closed.add(schema);
    allowNullReference(schema);
    // A map has no properties, but the schema of its values.
    if (schema.properties !== undefined) schema.additionalProperties ??= false;
    Object.values(schema.properties ?? {}).forEach(close);
    // Several closed schemas would reject each other's properties.
    if (schema.allOf?.length === 1) close(schema.allOf[0]);
    schema.anyOf?.forEach(close);
    schema.oneOf?.forEach(close);
    close(schema.items);
    if (typeof schema.additionalProperties === 'object') close(schema.additionalProperties);
  };
  for (const { schema } of Object.values(requestBody.content)) close(schema);
}

/**
 * Rewrites a schema that is a reference or null: Nest combines them with `allOf`, in which the referenced
 * schema rejects null (OpenAPI 3.0.3, proposal 2019-10-31 "Clarify Semantics of nullable").
 */
function allowNullReference(schema: Exclude<SchemaOrReference, { $ref: string }>): void {
  if (schema.nullable !== true || schema.allOf === undefined) return;
  schema.anyOf = [...schema.allOf, { type: 'object', nullable: true, enum: [null] }];
  delete schema.allOf;
  delete schema.nullable;
  delete schema.type;
}
