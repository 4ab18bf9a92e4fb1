import type { NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Request, RequestHandler } from 'express';
import type { Config } from '../config/config.js';
import { swaggerUiHeaders } from '../http/responses/security-headers.js';
import { toOpenApi31 } from './openapi-3.1.js';
import { createDocument, type Tag, THIS_DEPLOYMENT } from './openapi-document.js';
import { swaggerUiOptions } from './swagger-ui.js';

const DOCUMENT_PATHS = ['/openapi.json', '/openapi.yaml', '/openapi-3.1.json'];

/** Lets pages of any origin, such as editors, read the OpenAPI document: it is public. */
const allowAnyOrigin: RequestHandler = (_request, response, next) => {
  response.setHeader('Access-Control-Allow-Origin', '*');
  next();
};

/**
 * Serves Swagger UI at `/docs`, the OpenAPI document at `/openapi.json` and `/openapi.yaml`, and the same
 * document as OpenAPI 3.1 at `/openapi-3.1.json`.
 *
 * @param tags the tags of the features
 */
export function setupApiDocs(
  app: NestExpressApplication,
  config: Config,
  tags: readonly Tag[],
): void {
  app.use('/docs', swaggerUiHeaders(config));
  app.use(DOCUMENT_PATHS, allowAnyOrigin);
  SwaggerModule.setup('docs', app, () => createDocument(app, config, tags), {
    jsonDocumentUrl: DOCUMENT_PATHS[0],
    yamlDocumentUrl: DOCUMENT_PATHS[1],
    ...swaggerUiOptions,
    patchDocumentOnRequest: (request, _response, document) =>
      config.publicBaseUrl !== undefined && (request as Request).path.endsWith('.js')
        ? withThisDeployment(document)
        : document,
  });
  SwaggerModule.setup('openapi-3.1', app, () => toOpenApi31(createDocument(app, config, tags)), {
    ui: false,
    raw: ['json'],
    jsonDocumentUrl: DOCUMENT_PATHS[2],
  });
}

/**
 * Adds the deployment that serves Swagger UI, as the first server, at whatever address it was opened:
 * the browser blocks requests to another origin, such as localhost from a page of 127.0.0.1.
 */
function withThisDeployment(document: OpenAPIObject): OpenAPIObject {
  const paths = Object.entries(document.paths).map(([path, item]) => [
    path,
    item.servers === undefined
      ? item
      : { ...item, servers: [{ ...THIS_DEPLOYMENT, url: '/' }, ...item.servers] },
  ]);
  return {
    ...document,
    servers: [THIS_DEPLOYMENT, ...(document.servers ?? [])],
    paths: Object.fromEntries(paths) as OpenAPIObject['paths'],
  };
}
