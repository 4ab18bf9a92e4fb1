import { fileURLToPath } from 'node:url';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Express } from 'express';
import { dump } from 'js-yaml';
import type { Config } from '../config/config.js';
import { swaggerUiHeaders } from '../http/responses/default-headers.js';
import { createDocument, type FeatureDocs, THIS_DEPLOYMENT } from './openapi-document.js';
import { selectFiles, swaggerUiOptions } from './swagger-ui.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** What applies to clients of any product. */
const PAGES = ['/docs/errors.md', '/docs/api-behaviour.md'];

/**
 * Serves Swagger UI at `/docs`, to which `/` redirects, and the OpenAPI document at `/openapi.json` and
 * `/openapi.yaml`.
 */
export function setupApiDocs(app: NestExpressApplication, config: Config, docs: FeatureDocs): void {
  // The texts are created once, because these requests need no key, and YAML takes 4 ms.
  const getDocument = once(() => createDocument(app, config, docs));
  const getJson = once(() => JSON.stringify(getDocument()));
  const getYaml = once(() => dump(getDocument(), { skipInvalid: true, noRefs: true }));
  const express: Express = app.getHttpAdapter().getInstance();
  // The document is public: pages of any origin, such as editors, may read it.
  const serve = (path: string, type: string, getText: () => string) =>
    express.get(path, (_request, response) =>
      response.set('Access-Control-Allow-Origin', '*').type(type).send(getText()),
    );
  serve('/openapi.json', 'json', getJson);
  serve('/openapi.yaml', 'text/yaml', getYaml);
  // Plain text is displayed; browsers download text/markdown.
  const headers = { 'Content-Type': 'text/plain; charset=utf-8' };
  // A path below a root may be in a folder that begins with a dot, which Express rejects in an absolute path.
  const text = { root: ROOT, headers, cacheControl: false };
  const pages = [...PAGES, ...(config.product.guide ?? [])];
  for (const path of pages)
    express.get(path, (_request, response) => response.sendFile(path, text));
  app.use('/docs', swaggerUiHeaders(config), selectFiles(pages));
  SwaggerModule.setup('docs', app, () => addThisDeployment(getDocument(), config), {
    ...swaggerUiOptions,
    customSiteTitle: `${config.product.title} API`,
    raw: false,
  });
  // The redirect is relative, because a proxy may serve the service under a path prefix.
  express.get('/', (_request, response) => response.redirect('docs'));
}

/** Returns a function that calls another one only the first time, and returns its result every time. */
function once<T>(create: () => T): () => T {
  let result: T | undefined;
  return () => (result ??= create());
}

/**
 * Adds the deployment that serves Swagger UI as the first server, with a relative URL: browsers block requests to another
 * origin, such as localhost from a page of 127.0.0.1.
 */
function addThisDeployment(document: OpenAPIObject, { publicBaseUrl }: Config): OpenAPIObject {
  if (publicBaseUrl === undefined) return document;
  const copy = structuredClone(document);
  copy.servers!.unshift(THIS_DEPLOYMENT);
  for (const { servers } of Object.values(copy.paths))
    servers?.unshift({ ...THIS_DEPLOYMENT, url: '/' });
  return copy;
}
