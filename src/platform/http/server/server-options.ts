import type { ServerOptions } from 'node:http';

/** Requests on one connection: clients then spread over the instances, and pipelined floods are bounded. */
export const MAX_REQUESTS_PER_CONNECTION = 10_000;

/** Header lines of a request. Beyond a thousand Node silently drops them, Authorization included. */
export const MAX_HEADERS = 100;

/** How long a client may go without reading any of its response, in milliseconds. */
export const SOCKET_TIMEOUT_MS = 30_000;

/** The fixed limits of Node's HTTP server, in milliseconds and bytes. `KEEP_ALIVE_TIMEOUT_MS` sets the idle timeout. */
export const SERVER_OPTIONS = {
  /** The time to receive the headers, and the whole request. */
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  /** How often both are checked. Node's default of 30 s would triple them. */
  connectionsCheckingInterval: 1_000,
  /** The request line and the headers together, as Node counts them. */
  maxHeaderSize: 16 * 1024,
  // Node would respond 400 without a body; `validateRequestHead` responds with one.
  requireHostHeader: false,
} as const satisfies ServerOptions;
