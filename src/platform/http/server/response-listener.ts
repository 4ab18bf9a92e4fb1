import type { RequestInfo } from './route-label.js';

/**
 * Is called when a response has been sent.
 *
 * @param milliseconds since the headers of the request were parsed; undefined if they never were
 */
export type ResponseListener = (
  request: RequestInfo,
  status: number,
  milliseconds: number | undefined,
) => void;
