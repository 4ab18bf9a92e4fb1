import type { Express, Request, RequestHandler } from 'express';
import { ApiError } from '../../errors/api-error.js';

/**
 * Adds the responses for requests that match no operation, after all other routes: 405 with `Allow` if
 * the path supports other methods, otherwise 404, or 400 if the path cannot be decoded. Neither requires a key, because the OpenAPI document
 * lists the operations and is public.
 */
export function handleUnmatchedRoutes(app: Express): void {
  for (const [path, methods] of getRoutes(app)) app.route(path).all(methodNotAllowed(methods));
  app.use(routeNotFound);
}

/** The methods of each path that the application has registered. */
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

function methodNotAllowed(methods: ReadonlySet<string>): RequestHandler {
  const allow = [...methods].toSorted().join(', ');
  return ({ method, path }) => {
    throw new ApiError('METHOD_NOT_ALLOWED', `Method ${method} is not allowed for ${path}.`, {
      Allow: allow,
    });
  };
}

function routeNotFound({ method, path }: Request): never {
  if (!isDecodable(path)) throw new ApiError('BAD_REQUEST', `Failed to decode the path ${path}.`);
  throw new ApiError('NOT_FOUND', `Route not found: ${method} ${path}.`);
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
