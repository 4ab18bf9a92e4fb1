import type { IncomingMessage } from 'node:http';

declare module 'node:http' {
  interface IncomingMessage {
    /** The request id: the client's `X-Request-Id` if it is valid, otherwise a new UUID. */
    id: string;
    /** The API key, once it is verified. */
    apiKey?: {
      readonly id: number;
      readonly scopes: string;
      readonly requestsPerMinute: number | null;
    };
    route?: { readonly path: string };
    readonly ip?: string | undefined;
  }
}

/**
 * Called when a response has been sent, or its client has disconnected, with the time since the request's headers were
 * parsed. The request has no method if its head was not valid HTTP.
 */
export type ResponseListener = (
  request: IncomingMessage,
  status: number,
  milliseconds: number,
) => void;

/**
 * Returns the pattern of the route of a request, such as `/v1/pets/:petId`, for logs and metrics: a bounded set of values
 * without client input. It is `not_found` if no route matched, and `unknown` if none was tried, as for the files of
 * Swagger UI, CORS preflights and what is not valid HTTP.
 */
export function getRouteLabel({ route }: IncomingMessage, status?: number): string {
  return route?.path ?? (status === 404 ? 'not_found' : 'unknown');
}
