import type { IncomingMessage } from 'node:http';

/** Checks a request again after a body that took long to arrive. The auth module provides the implementation. */
export abstract class SlowBodyCheck {
  /** @throws {ApiError} UNAUTHORIZED if the API key of the request is not valid any more; SERVICE_UNAVAILABLE */
  abstract afterSlowBody(request: IncomingMessage): Promise<void>;
}
