import type { IncomingMessage } from 'node:http';

/** What a request may wait for before its operation runs, and after it. */
export type WaitReason = 'apiKey' | 'body' | 'client';

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
    /** What was thrown while the request was handled. */
    error?: unknown;
    /** How long the request waited, in milliseconds. */
    waits?: Partial<Record<WaitReason, number>>;
  }
}

/** The known parts of a request: not even a method if its head was not valid HTTP. */
export type RequestInfo = Pick<IncomingMessage, 'apiKey' | 'error' | 'id' | 'waits'> & {
  readonly method?: string | undefined;
  /** The route that Express matched. */
  readonly route?: { readonly path: string };
  /** The address of the client. */
  readonly ip?: string | undefined;
};

/** Records how long a request waits for a promise. */
export async function measureWait<T>(
  request: IncomingMessage,
  reason: WaitReason,
  promise: Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  try {
    return await promise;
  } finally {
    recordWait(request, reason, performance.now() - startedAt);
  }
}

/** Records how long a request has waited, in milliseconds. */
export function recordWait(
  request: IncomingMessage,
  reason: WaitReason,
  milliseconds: number,
): void {
  (request.waits ??= {})[reason] = milliseconds;
}
