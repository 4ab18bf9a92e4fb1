import type { IncomingMessage } from 'node:http';

/** The route that Express found for a request, as far as it is used here. */
interface Route {
  readonly path: string;
  readonly stack: readonly { readonly handle: object }[];
}

/** What is known of a request, whole or not. */
export type RequestInfo = Pick<IncomingMessage, 'id'> & {
  readonly method?: string | undefined;
  readonly route?: Route;
};

/** Where `@ApiOperation` keeps what it is given. */
const API_OPERATION = 'swagger/apiOperation';

const names = new WeakMap<Route, string>();

/**
 * The name of what a request asked for, from a short list, and without anything that the client
 * wrote: the `operationId`, the path of a route without one such as `/livez`, `unmatched` where no
 * route took the request, `other` where none was tried: files of Swagger UI, preflights, what is not
 * valid HTTP.
 */
export function getRouteLabel({ route }: RequestInfo): string {
  if (route === undefined) return 'other';
  const known = names.get(route);
  if (known !== undefined) return known;
  const handler = route.stack[0]?.handle;
  const { operationId } = ((handler && Reflect.getMetadata(API_OPERATION, handler)) ?? {}) as {
    operationId?: string;
  };
  const name = operationId ?? (route.path === '/{*path}' ? 'unmatched' : route.path);
  names.set(route, name);
  return name;
}
