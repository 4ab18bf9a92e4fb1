import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { SharedBodies } from './shared-bodies.js';

/** An open connection, with the responses to the two most recent requests that arrived on it. */
export interface Connection extends Socket {
  requestCount: number;
  latestResponse?: ServerResponse;
  previousResponse?: ServerResponse | undefined;
  /** The shared bodies of the server. */
  sharedBodies: SharedBodies;
}

/** Whether no request is in flight, and the last response has left the process, or never will. */
export function isIdle({ latestResponse: response }: Connection): boolean {
  return response === undefined || response.writableFinished || response.destroyed;
}
