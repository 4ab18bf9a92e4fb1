import { Logger } from '@nestjs/common';
import type { ResponseListener } from './response-listener.js';
import { getRouteLabel, type RequestInfo } from './route-label.js';

/**
 * Creates a listener that logs a line at `debug` for each response. The line has the route pattern, not
 * the path, which may contain a key that was sent there by mistake.
 */
export function createRequestLogger(): ResponseListener {
  const logger = new Logger('Http');
  return (request, status, milliseconds) => {
    const duration = milliseconds === undefined ? '' : ` ${milliseconds.toFixed(1)} ms`;
    const route = getRouteLabel(request, status);
    logger.debug(`${request.method ?? '-'} ${route} ${status}${duration}`, {
      requestId: request.id,
    });
  };
}

/** Logs an unexpected error with the request that caused it. */
export function logFailedRequest(logger: Logger, request: RequestInfo, error: unknown): void {
  logger.error('Request failed', error, {
    method: request.method,
    route: getRouteLabel(request),
    requestId: request.id,
  });
}
