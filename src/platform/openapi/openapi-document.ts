import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Request } from 'express';
import type { Config } from '../config/config.js';
import { ApiError, ErrorBody } from '../errors/api-error.js';
import { ERROR_CODES } from '../errors/error-codes.js';
import { swaggerUiHeaders } from '../http/server/security-headers.js';
import { swaggerUiOptions } from './swagger-ui.js';

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;
type Schema = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string];

/** The path segment that ends the base address, and that every operation stands below. */
const API_PREFIX = '/v1';

const DESCRIPTION = `A small HTTP and JSON interface for a pet store: list and create the categories that classify pets.

Every operation needs an API key, sent as \`Authorization: Bearer <API_KEY>\`. Whoever operates the service
makes one with \`npm run keys -- create <name>\`. To try the operations in Swagger UI, press Authorize and
enter the key; the browser keeps it until you press Logout.

Every error answer has the body \`{ code, message, status }\`, with one of these codes:

| Code | Status | When |
|---|---|---|
${Object.entries(ERROR_CODES)
  .map(([code, { status, description }]) => `| \`${code}\` | ${status} | ${description} |`)
  .join('\n')}
`;

/** The OpenAPI document of everything that the application publishes. */
export function createDocument(app: NestExpressApplication, config: Config): OpenAPIObject {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.0.3')
    .setTitle('Petstore')
    .setDescription(DESCRIPTION)
    .setVersion('1.0.0')
    .addServer(config.publicBaseUrl, 'Production')
    .addTag('categories', 'Categories classify pets: dog, cat, rabbit')
    .addTag('pets', 'Pets: published, not specified yet')
    .addTag('store', 'Store orders: published, not specified yet')
    .addBearerAuth(
      {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'API key',
        description: 'An API key of the service, as `npm run keys -- create <name>` prints it.',
      },
      'apiKey',
    )
    .addSecurityRequirements('apiKey')
    .addGlobalResponse(
      { status: 401, type: ErrorBody, description: 'The API key is missing or invalid.' },
      {
        status: 'default',
        type: ErrorBody,
        description: 'Any other error; its `code` says which.',
        example: new ApiError(
          'SERVICE_UNAVAILABLE',
          'The database does not answer. Try again later.',
        ).body,
      },
    );
  if (config.stagingBaseUrl !== undefined) builder.addServer(config.stagingBaseUrl, 'Staging');

  const document = SwaggerModule.createDocument(app, builder.build());
  // The path of each server ends in the version, so the paths of the document begin after it. Another
  // version has servers of its own, which end before it.
  const unversioned = (document.servers ?? []).map(({ url, description }) => ({
    url: url.slice(0, -API_PREFIX.length),
    description,
  }));
  document.paths = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) =>
      path.startsWith(`${API_PREFIX}/`)
        ? [path.slice(API_PREFIX.length), item]
        : [path, { ...item, servers: unversioned }],
    ),
  );
  for (const { get, put, post, delete: remove, patch } of Object.values(document.paths)) {
    for (const operation of [get, put, post, remove, patch]) {
      if (operation === undefined) continue;
      appendLifecycleNotes(operation);
      disallowAdditionalProperties(operation, document.components?.schemas ?? {});
    }
  }
  return document;
}

/** Serves Swagger UI at `/docs`, and the document at `/openapi.json` and `/openapi.yaml`. */
export function setupApiDocs(app: NestExpressApplication, config: Config): void {
  app.use('/docs', swaggerUiHeaders(config));
  SwaggerModule.setup('docs', app, () => createDocument(app, config), {
    jsonDocumentUrl: 'openapi.json',
    yamlDocumentUrl: 'openapi.yaml',
    ...swaggerUiOptions,
    // Swagger UI asks the deployment that it was opened on, whatever address it was opened at. Another
    // origin, such as localhost where 127.0.0.1 was meant, would be refused by the browser.
    patchDocumentOnRequest: (request, _response, document) =>
      (request as Request).path.endsWith('.js')
        ? {
            ...document,
            servers: [
              { url: API_PREFIX, description: 'This deployment' },
              ...(document.servers ?? []),
            ],
          }
        : document,
  });
}

/** Says in words, where Swagger UI shows it, what `@Deprecated` and `@Stability` declare. */
function appendLifecycleNotes(operation: Operation): void {
  const {
    'x-deprecated-since': since,
    'x-sunset': sunset,
    'x-stability': stability,
  } = operation as Operation &
    Partial<Record<`x-${'deprecated-since' | 'sunset' | 'stability'}`, string>>;
  const sentences = [operation.description];
  if (since !== undefined) {
    operation.deprecated = true;
    sentences.push(`**Deprecated** since ${since}.`);
  }
  if (sunset !== undefined) sentences.push(`**Sunset** on ${sunset}: from then on it answers 410.`);
  if (stability !== undefined) sentences.push(`**Stability: ${stability}.** It may still change.`);
  operation.description = sentences.filter(Boolean).join('\n\n');
}

/** A request body takes no property that it does not name; the validation refuses them. */
function disallowAdditionalProperties(
  { requestBody }: Operation,
  schemas: Record<string, Schema>,
): void {
  if (requestBody === undefined || '$ref' in requestBody) return;
  for (const { schema } of Object.values(requestBody.content)) {
    const name =
      schema !== undefined && '$ref' in schema ? schema.$ref.split('/').at(-1) : undefined;
    const body = name === undefined ? undefined : schemas[name];
    if (body !== undefined && !('$ref' in body)) body.additionalProperties = false;
  }
}
