import type { NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Express, Request, RequestHandler } from 'express';
import type { Config } from '../config/config.js';
import { swaggerUiHeaders } from '../http/responses/security-headers.js';
import { createDocument, type FeatureDocs, THIS_DEPLOYMENT } from './openapi-document.js';
import { swaggerUiOptions } from './swagger-ui.js';

const JSON_PATH = '/openapi.json';
const YAML_PATH = '/openapi.yaml';

/** Lets pages of any origin, such as editors, read the OpenAPI document: it is public. */
const allowAnyOrigin: RequestHandler = (_request, response, next) => {
  response.setHeader('Access-Control-Allow-Origin', '*');
  next();
};

/**
 * Repeats the first response of a public route: `@nestjs/swagger` converts the document for every request, for YAML in
 * 4 ms, and anyone may send them.
 */
function repeatFirstResponse(): RequestHandler {
  let first: { readonly type: string; readonly body: unknown } | undefined;
  return (_request, response, next) => {
    if (first !== undefined) {
      response.type(first.type).send(first.body);
      return;
    }
    const send = response.send.bind(response);
    response.send = (body: unknown) => {
      first = { type: response.get('Content-Type')!, body };
      return send(body);
    };
    next();
  };
}

/**
 * Serves Swagger UI at `/docs`, to which `/` redirects, and the OpenAPI document at `/openapi.json` and
 * `/openapi.yaml`.
 *
 * @param docs what the features declare
 */
export function setupApiDocs(app: NestExpressApplication, config: Config, docs: FeatureDocs): void {
  app.use('/docs', swaggerUiHeaders(config));
  app.use([JSON_PATH, YAML_PATH], allowAnyOrigin);
  const express: Express = app.getHttpAdapter().getInstance();
  for (const path of [JSON_PATH, YAML_PATH, '/docs/swagger-ui-init.js'])
    express.get(path, repeatFirstResponse());
  SwaggerModule.setup('docs', app, () => createDocument(app, config, docs), {
    ...swaggerUiOptions,
    jsonDocumentUrl: JSON_PATH,
    yamlDocumentUrl: YAML_PATH,
    patchDocumentOnRequest: (request, _response, document) =>
      config.publicBaseUrl !== undefined && (request as Request).path.endsWith('.js')
        ? withThisDeployment(document)
        : document,
  });
  // Relative, because a proxy may serve the service under a path prefix.
  express.get('/', (_request, response) => response.redirect('docs'));
}

/**
 * Adds the deployment that serves Swagger UI, as the first server, at whatever address it was opened:
 * the browser blocks requests to another origin, such as localhost from a page of 127.0.0.1.
 */
function withThisDeployment(document: OpenAPIObject): OpenAPIObject {
  const copy = structuredClone(document);
  copy.servers!.unshift(THIS_DEPLOYMENT);
  for (const { servers } of Object.values(copy.paths))
    servers?.unshift({ ...THIS_DEPLOYMENT, url: '/' });
  return copy;
}
