/** The number of requests after which a connection is closed: clients spread over the instances, and floods are bounded. */
export const MAX_REQUESTS_PER_CONNECTION = 10_000;

/** The largest number of header lines of a request. Node silently drops those after a thousand, even Authorization. */
export const MAX_HEADERS = 100;

/** The largest size of the request line and the headers together, in bytes as Node counts them. */
export const MAX_HEADER_SIZE = 16 * 1024;

/** The largest length of If-Match and of If-None-Match, in characters: about a hundred ETags. */
export const MAX_ETAGS_LENGTH = 8 * 1024;

/** The largest size of the lists in memory, in bytes: cached ones, and superseded ones that connections still read. */
export const MAX_LIST_BYTES = 64 * 1024 * 1024;

/** The largest size of the superseded lists alone, in bytes. */
export const MAX_SUPERSEDED_BYTES = MAX_LIST_BYTES / 2;

/** The fixed timeouts of the HTTP server, in milliseconds. `KEEP_ALIVE_TIMEOUT_MS` sets the idle timeout. */
export const SERVER_TIMEOUTS = {
  headers: 5_000,
  request: 10_000,
  /** How often both are checked. With Node's default of 30 s, a request could take 40 s. */
  checkInterval: 1_000,
  /** How long a client may go without reading any of its response. Node notices it within twice the time. */
  socket: 30_000,
  /** How long requests that are already on the wire may still arrive during shutdown. */
  drainGracePeriod: 500,
  /** The time from the end of `SHUTDOWN_DELAY_MS` until open connections are closed. */
  shutdown: 8_000,
};

export type ServerTimeouts = typeof SERVER_TIMEOUTS;
