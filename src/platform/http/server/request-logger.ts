import type { IncomingMessage } from 'node:http';
import { Logger } from '@nestjs/common';
import { getRouteLabel, type ResponseListener } from './request-info.js';

/** The duration from which a request is logged as slow, in milliseconds. */
const SLOW_REQUEST_MS = 1_000;

const logger = new Logger('Http');

/**
 * Creates a listener that logs a line for each response: at `warn` if the request was slow, otherwise at
 * `debug`. The line has the route pattern, not the path, which may contain a key that was sent there by
 * mistake.
 *
 * @param logsAll whether lines at `debug` are written
 */
export function createRequestLogger(logsAll: boolean): ResponseListener {
  return (request, status, milliseconds) => {
    const isSlow = milliseconds >= SLOW_REQUEST_MS;
    if (!isSlow && !logsAll) return;
    const { id: requestId, apiKey, ip: clientIp } = request;
    const method = request.method ?? '-';
    const route = getRouteLabel(request, status);
    const durationMs = Math.round(milliseconds * 10) / 10;
    const line = `${method} ${route} ${status} ${durationMs.toFixed(1)} ms`;
    const apiKeyId = apiKey?.id;
    const details = { requestId, method, route, status, durationMs, apiKeyId, clientIp };
    if (isSlow) logger.warn(`Slow request: ${line}`, details);
    else logger.debug(line, details);
  };
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
