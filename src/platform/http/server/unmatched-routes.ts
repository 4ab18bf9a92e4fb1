import type { Express, Request, Response } from 'express';
import { isDecodable } from '../../config/uri.js';
import { ApiError } from '../../errors/api-error.js';

/**
 * Responds to requests that match none of the registered routes: 405 with `Allow` if the path supports other methods,
 * otherwise 404, or 400 if the path cannot be decoded. These responses require no key, because the OpenAPI document, which
 * is public, lists the operations.
 *
 * @returns the methods of all routes, as a value of `Allow`
 */
export function handleUnmatchedRoutes(app: Express): string {
  const all = ['OPTIONS'];
  for (const [path, methods] of getRoutes(app)) {
    all.push(...methods);
    app.route(path).all((_request, response, next) => {
      allowMethods(response, methods);
      next();
    });
  }
  app.use(rejectUnmatched);
  return formatAllow(all);
}

const formatAllow = (methods: Iterable<string>): string =>
  [...new Set(methods)].toSorted().join(', ');

/** The layers of middleware, which Express does not distinguish from operations. */
export const middlewareLayers = new WeakSet<object>();

/** Returns the methods of each path that is registered. Nest has no public list of its routes; Express has. */
export function getRoutes({ router }: Express): Map<string, Set<string>> {
  const routes = new Map<string, Set<string>>();
  for (const layer of router.stack) {
    const { route } = layer;
    if (route === undefined || middlewareLayers.has(layer)) continue;
    const methods = routes.get(route.path) ?? new Set<string>();
    // The method of `app.all` is undefined.
    for (const { method } of route.stack) if (method) methods.add(method.toUpperCase());
    if (methods.has('GET')) methods.add('HEAD');
    routes.set(route.path, methods);
  }
  return routes;
}

type RouteResponse = Response<unknown, { allowed?: readonly string[] }>;

/** Adds methods that are allowed. Several paths may match a request, such as `/pets/photos` and `/pets/:petId`. */
export function allowMethods({ locals }: RouteResponse, methods: Iterable<string>): void {
  locals.allowed = [...(locals.allowed ?? []), ...methods];
}

/** @throws {ApiError} METHOD_NOT_ALLOWED, NOT_FOUND, or BAD_REQUEST if the path cannot be decoded */
export function rejectUnmatched(request: Request, { locals }: RouteResponse): never {
  const { method } = request;
  const path = request.baseUrl + request.path;
  // If the method is allowed, its handler has passed the request on, or is bound to another host.
  if (locals.allowed?.includes(method) === false) {
    const message = `Method ${method} is not allowed for ${path}.`;
    const headers = { Allow: formatAllow(locals.allowed) };
    throw new ApiError('METHOD_NOT_ALLOWED', message, { headers });
  }
  // The route may be that of middleware, which must not be in logs and metrics.
  request.route = undefined;
  if (!isDecodable(path)) throw new ApiError('BAD_REQUEST', `Failed to decode the path ${path}.`);
  throw new ApiError('NOT_FOUND', `Route not found: ${method} ${path}.`);
}
