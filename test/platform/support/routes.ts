import { METHODS } from 'node:http';
import { RequestMethod, type Type, VERSION_NEUTRAL } from '@nestjs/common';
import { ApplicationConfig, MetadataScanner, ModulesContainer, Reflector } from '@nestjs/core';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import type { OpenAPIObject } from '@nestjs/swagger';
import type { Express } from 'express';
import { IsPublic } from '../../../src/platform/auth/public.decorator.js';
import { middlewareLayers } from '../../../src/platform/http/server/unmatched-routes.js';
import { PRODUCT } from '../../../src/product.js';
import type { TestApp } from './app.js';

/** A route of the running application; its path has braces for parameters. */
export interface Route {
  readonly method: string;
  readonly path: string;
}

export type Operation = NonNullable<OpenAPIObject['paths'][string]['get']> & {
  readonly 'x-required-scope'?: string;
};

/** An operation of the OpenAPI document, at the path where it is served. */
export interface DocumentedOperation extends Route {
  readonly operation: Operation;
}

/** The routes of the platform that require no key. None of them belongs to the published API. */
export const PUBLIC_PATHS: ReadonlySet<string> = new Set([
  '/',
  '/docs',
  '/docs/',
  '/docs/LICENSE',
  '/docs/errors.md',
  '/docs/api-behaviour.md',
  ...(PRODUCT.guide ?? []),
  '/docs/docs/swagger-ui-init.js',
  '/docs/index.html',
  '/docs/swagger-ui-init.js',
  '/livez',
  '/openapi.json',
  '/openapi.yaml',
  '/readyz',
]);

/** Returns every route of the application. */
export function getRoutes({ app }: TestApp): Route[] {
  const express: Express = app.getHttpAdapter().getInstance();
  const layers = express.router.stack.filter((layer) => !middlewareLayers.has(layer));
  return layers.flatMap(({ route }) =>
    (route?.stack ?? [])
      // The handler that responds with 405 has no method.
      .filter(({ method }) => method !== undefined)
      .map(({ method }) => ({ method: method.toUpperCase(), path: toTemplate(route!.path) })),
  );
}

/** Replaces Express's syntax for parameters by braces, and removes what it escapes. */
const toTemplate = (path: string): string =>
  path.replaceAll(
    /\\(.)|:(?:"([^"]+)"|(\w+))/g,
    (_match, escaped?: string, quoted?: string, name?: string) => escaped ?? `{${quoted ?? name}}`,
  );

/** Returns the routes that require a key. */
export function getProtectedRoutes(app: TestApp): Route[] {
  const guide = new Set(app.config.product.guide);
  return getRoutes(app).filter(({ path }) => !PUBLIC_PATHS.has(path) && !guide.has(path));
}

/** The route of an operation, and what its decorators declare. */
interface DeclaredRoute extends Route {
  readonly isPublic: boolean;
  /** Whether it is not in the OpenAPI document. */
  readonly isExcluded: boolean;
}

type Version = string | string[] | typeof VERSION_NEUTRAL | undefined;

/** Returns the routes of all controllers. */
export function getDeclaredRoutes({ app }: TestApp): DeclaredRoute[] {
  const modules = [...app.get(ModulesContainer).values()];
  const controllers = modules.flatMap((module) => Array.from(module.controllers.values()));
  const config = app.get(ApplicationConfig);
  const versioningOptions = config.getVersioning()!;
  // Decides about slashes, and about several paths or versions of a handler.
  const factory = new RoutePathFactory(config);
  return controllers.flatMap(({ metatype }) => {
    const { prototype } = metatype as Type<Record<string, Type>>;
    return new MetadataScanner().getAllMethodNames(prototype).flatMap((name) => {
      const handler = prototype[name]!;
      const get = (key: string, place: Type = handler): unknown => Reflect.getMetadata(key, place);
      const method = get('method') as RequestMethod | undefined;
      if (method === undefined) return [];
      const paths = factory.create({
        ctrlPath: get('path', metatype as Type) as string,
        methodPath: get('path') as string,
        methodVersion: get('__version__') as Version,
        controllerVersion:
          (get('__version__', metatype as Type) as Version) ?? versioningOptions.defaultVersion,
        versioningOptions,
      });
      return paths.map((path) => ({
        method: RequestMethod[method],
        path: toTemplate(path),
        isPublic: app.get(Reflector).get(IsPublic, handler) !== undefined,
        isExcluded:
          (get('swagger/apiExcludeEndpoint') ??
            get('swagger/apiExcludeController', metatype as Type)) !== undefined,
      }));
    });
  });
}

/** Returns a path that matches a route. */
export function toExamplePath(path: string): string {
  return path.replaceAll(/\{[^}]+\}/g, '1');
}

/** Returns the methods that a path supports, by all routes that match it, in alphabetical order. */
export function findMethods(routes: readonly Route[], path: string): string[] {
  const methods = routes
    .filter((route) => matches(route, path))
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  return [...new Set(methods)].toSorted();
}

/** Whether a path is one of a route. */
export const matches = (route: Route, path: string): boolean =>
  new RegExp(
    `^${route.path
      .split(/\{[^}]+\}/)
      .map((part) => part.replaceAll(/\W/g, '\\$&'))
      .join('[^/]+')}$`,
  ).test(path);

/** Returns what a path of an OpenAPI document is on the service: another version has servers of its own. */
export const toTarget = ({ paths }: Pick<OpenAPIObject, 'paths'>, path: string): string =>
  'servers' in (paths[path] ?? {}) ? path : `/v1${path}`;

/** Returns every operation of an OpenAPI document. */
export function getOperations({ paths }: OpenAPIObject): DocumentedOperation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item as Record<string, DocumentedOperation['operation']>)
      .map(([key, operation]) => ({
        method: key.toUpperCase(),
        path: toTarget({ paths }, path),
        operation,
      }))
      // A path item has other keys, too, such as `servers`.
      .filter(({ method }) => METHODS.includes(method)),
  );
}

/** Returns the status of the successful response of an operation. */
export const getStatus = ({ responses }: Operation): number =>
  Number(Object.keys(responses).find((status) => status.startsWith('2')));

/** Whether the successful response of an operation has a header. */
export const hasHeader = (operation: Operation, name: string): boolean =>
  name in ((operation.responses[getStatus(operation)] as { headers?: object }).headers ?? {});

export const findParameter = ({ parameters }: Operation, name: string): object | undefined =>
  parameters?.find(
    (parameter) => 'name' in parameter && parameter.name === name && parameter.in !== 'path',
  );

interface Schema {
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, Record<string, unknown>>>;
}

/**
 * Returns the schema of the body of a request, without what only responses have, or of the response with a status.
 *
 * @param select returns the schema of the resource: the one of the body, or of a property of it
 */
export function getBodySchema(
  document: OpenAPIObject,
  operation: Operation,
  status?: number,
  select: (body: Reference, parts: Record<string, Reference>) => Reference = (body) => body,
): Schema {
  const body = getContent(document, operation, status);
  const parts = Object.entries(body.properties ?? {}).map(
    ([name, each]) => [name, resolve(document, each)] as const,
  );
  const { properties = {}, required = [] } = select(body, Object.fromEntries(parts));
  const own = Object.entries(properties).filter(
    ([, { readOnly }]) => status !== undefined || readOnly !== true,
  );
  const names = new Set(own.map(([name]) => name));
  return {
    properties: Object.fromEntries(own),
    required: required.filter((name) => names.has(name)),
  };
}

/** Returns the properties that are documented of the items of a list, which is an array, or an object with one. */
export function getItemProperties(document: OpenAPIObject, list: Operation): Schema['properties'] {
  const schema = getContent(document, list, getStatus(list));
  const array = [schema, ...Object.values(schema.properties ?? {})].find(
    ({ type }) => type === 'array',
  );
  return resolve(document, (array?.['items'] ?? {}) as Reference).properties ?? {};
}

type Reference = Partial<Schema> & Record<string, unknown> & { readonly $ref?: string };

function getContent(
  document: OpenAPIObject,
  { requestBody, responses }: Operation,
  status: number | undefined,
): Reference {
  const { content = {} } = (status === undefined ? requestBody : responses[status]) as {
    content?: Record<string, { schema: Reference }>;
  };
  return resolve(document, Object.values(content)[0]?.schema ?? {});
}

/** Follows a reference, also one beside a description or null. */
function resolve({ components }: OpenAPIObject, schema: Reference): Reference {
  const [{ $ref } = schema] = (schema['allOf'] ?? schema['anyOf'] ?? []) as Reference[];
  return (components!.schemas![$ref?.split('/').pop() ?? ''] as Reference) ?? schema;
}
