import type { Express, Request, RequestHandler, Response } from 'express';
import { isDecodable } from '../../config/uri.js';
import { ApiError } from '../../errors/api-error.js';

/**
 * Registers fallback handlers for requests that match no operation: 405 with `Allow` if the path supports
 * other methods, otherwise 404, or 400 if the path cannot be decoded. None requires a key, because the
 * OpenAPI document lists the operations and is public. Call it after all routes are registered.
 */
export function handleUnmatchedRoutes(app: Express): void {
  for (const [path, methods] of getRoutes(app)) app.route(path).all(collectMethods(methods));
  app.use(rejectUnmatched);
}

/** Returns the methods of each path that is registered. Nest has no public list of its routes; Express has. */
function getRoutes({ router }: Express): Map<string, Set<string>> {
  const routes = new Map<string, Set<string>>();
  for (const { route } of router.stack) {
    if (route === undefined) continue;
    const methods = routes.get(route.path) ?? new Set<string>();
    for (const { method } of route.stack) methods.add(method.toUpperCase());
    if (methods.has('GET')) methods.add('HEAD');
    routes.set(route.path, methods);
  }
  return routes;
}

/** Several paths may match a request, such as `/pets/photos` and `/pets/:petId`. */
function collectMethods(methods: ReadonlySet<string>): RequestHandler {
  return (_request, { locals }: Response<unknown, Allowed>, next) => {
    locals.allowed = new Set([...(locals.allowed ?? []), ...methods]);
    next();
  };
}

interface Allowed extends Record<string, unknown> {
  allowed?: ReadonlySet<string>;
}

function rejectUnmatched({ method, path }: Request, { locals }: Response<unknown, Allowed>): never {
  if (locals.allowed !== undefined) {
    const message = `Method ${method} is not allowed for ${path}.`;
    const allow = [...locals.allowed].toSorted().join(', ');
    throw new ApiError('METHOD_NOT_ALLOWED', message, { headers: { Allow: allow } });
  }
  if (!isDecodable(path)) throw new ApiError('BAD_REQUEST', `Failed to decode the path ${path}.`);
  throw new ApiError('NOT_FOUND', `Route not found: ${method} ${path}.`);
}
