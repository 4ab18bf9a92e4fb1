import type { IncomingMessage } from 'node:http';
import { Logger } from '@nestjs/common';
import { QueryFailedError } from 'typeorm';
import { getRouteLabel } from './request-info.js';

/** For how long the failures of a wrong statement are logged as one, in milliseconds. */
const REPETITION_MS = 60_000;

const logger = new Logger('Http');
/** When the failure of each wrong statement was last logged, by its message, of which there are as many as statements. */
const loggedAt = new Map<string, number>();

/**
 * Logs a line for a response, at `debug`. It has the route pattern, not the path, which may contain a key
 * that was sent there by mistake.
 */
export function logResponse(request: IncomingMessage, status: number, milliseconds: number): void {
  const { id: requestId, apiKey, ip: clientIp } = request;
  const method = request.method ?? '-';
  const route = getRouteLabel(request, status);
  const durationMs = Math.round(milliseconds * 10) / 10;
  const details = { requestId, method, route, status, durationMs, apiKeyId: apiKey?.id, clientIp };
  logger.debug(`${method} ${route} ${status} ${durationMs.toFixed(1)} ms`, details);
}

/** Logs an unexpected error with the request that caused it; that of a wrong statement once a minute. */
export function logFailedRequest(request: IncomingMessage, error: unknown): void {
  if (isRepeated(error)) return;
  logger.error('Request failed', error, {
    method: request.method,
    route: getRouteLabel(request),
    requestId: request.id,
    apiKeyId: request.apiKey?.id,
  });
}

/** A statement that names what a reverted migration has removed, for example, fails for every request. */
function isRepeated(error: unknown): boolean {
  if (!(error instanceof QueryFailedError)) return false;
  const { message, driverError } = error as QueryFailedError<Error & { code?: string }>;
  if (!/^(42...|SQLITE_ERROR)$/.test(driverError.code ?? '')) return false;
  const now = performance.now();
  if (now - (loggedAt.get(message) ?? -Infinity) < REPETITION_MS) return true;
  loggedAt.set(message, now);
  return false;
}
