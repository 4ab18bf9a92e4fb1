import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { Logger } from '@nestjs/common';
import { getRouteLabel } from './request-info.js';
import { withoutPort } from './without-port.js';

const logger = new Logger('Http');

/**
 * Logs a line for a response, at `debug`. It has the route pattern, not the path, which may contain a key
 * that was sent there by mistake.
 */
export function logResponse(request: IncomingMessage, status: number, milliseconds: number): void {
  const { id: requestId, apiKey, ip = '' } = request;
  // The address is any text of the client if no proxy replaces X-Forwarded-For.
  const clientIp = isIP(withoutPort(ip)) > 0 ? ip : undefined;
  const method = request.method ?? '-';
  const route = getRouteLabel(request, status);
  const durationMs = Math.round(milliseconds * 10) / 10;
  const details = { requestId, method, route, status, durationMs, apiKeyId: apiKey?.id, clientIp };
  logger.debug(`${method} ${route} ${status} ${durationMs.toFixed(1)} ms`, details);
}

/** Logs an unexpected error with the request that caused it. */
export function logFailedRequest(request: IncomingMessage, error: unknown): void {
  logger.error('Request failed', error, {
    method: request.method,
    route: getRouteLabel(request),
    requestId: request.id,
    apiKeyId: request.apiKey?.id,
  });
}
