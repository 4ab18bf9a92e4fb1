import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { SharedBodies } from './shared-bodies.js';

/** An open connection, with the responses to the two most recent requests that arrived on it. */
export interface Connection extends Socket {
  requestCount: number;
  latestResponse?: ServerResponse;
  previousResponse?: ServerResponse | undefined;
  /** The bytes that the operating system had accepted when they last changed, in milliseconds of the monotonic clock. */
  acceptedBytes: number;
  acceptedAt: number;
  /** The shared bodies of the server. */
  sharedBodies: SharedBodies;
}

/** Returns how many bytes of a connection's writes the operating system has not accepted yet. */
export function getQueuedBytes(connection: Connection): number {
  // Node has no documented property for it; its own timeout uses this one.
  const { _handle: handle } = connection as { _handle?: { writeQueueSize: number } | null };
  return handle?.writeQueueSize ?? 0;
}

/** Returns how many bytes the operating system has accepted. Node counts those that it has been given. */
export function getAcceptedBytes(connection: Connection): number {
  return connection.bytesWritten - getQueuedBytes(connection);
}

/** Whether no request is in flight and the last response has left the process. */
export function isIdle({ latestResponse }: Connection): boolean {
  return latestResponse === undefined || isDone(latestResponse);
}

/** Whether a response has left the process, or never will. */
export function isDone({ writableFinished, destroyed }: ServerResponse): boolean {
  return writableFinished || destroyed;
}
