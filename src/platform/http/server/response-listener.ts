import type { RequestInfo } from './request-info.js';

/**
 * Called when a response has been sent, or its client has disconnected.
 *
 * @param milliseconds since the headers of the request were parsed; undefined if they never were
 */
export type ResponseListener = (
  request: RequestInfo,
  status: number,
  milliseconds: number | undefined,
) => void;
