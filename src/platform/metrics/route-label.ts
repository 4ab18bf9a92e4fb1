import type { RequestInfo } from '../http/server/request-info.js';

/**
 * Returns the pattern of the route of a request, such as `/v1/categories`, for logs and metrics: a
 * bounded set of values without client input.
 *
 * @param status the status of the response, if it is known
 * @returns `not_found` if no route matched; `unknown` if none was tried, as for the files of Swagger UI,
 *   CORS preflights and what is not valid HTTP
 */
export function getRouteLabel({ route }: RequestInfo, status?: number): string {
  return route?.path ?? (status === 404 ? 'not_found' : 'unknown');
}
