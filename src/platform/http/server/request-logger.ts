import { Logger } from '@nestjs/common';
import type { Config } from '../../config/config.js';
import { isLogged } from '../../logging/logger.js';
import type { RequestInfo, WaitReason } from './request-info.js';
import type { ResponseListener } from './response-listener.js';
import { getRouteLabel } from '../../metrics/route-label.js';

/** The duration from which a request is logged as slow, in milliseconds. */
const SLOW_REQUEST_MS = 1_000;

/**
 * Creates a listener that logs a line for each response: at `warn` if the request was slow, otherwise at
 * `debug`. The line has the route pattern, not the path, which may contain a key that was sent there by
 * mistake.
 */
export function createRequestLogger(config: Pick<Config, 'logLevel'>): ResponseListener {
  const logger = new Logger('Http');
  const logsAll = isLogged(config, 'debug');
  return (request, status, milliseconds) => {
    const isSlow = milliseconds !== undefined && milliseconds >= SLOW_REQUEST_MS;
    if (!isSlow && !logsAll) return;
    const { id: requestId, method = '-', apiKey, ip: clientIp, waits } = request;
    const route = getRouteLabel(request, status);
    const durationMs = milliseconds === undefined ? undefined : roundToTenth(milliseconds);
    const duration = durationMs === undefined ? '' : ` ${durationMs.toFixed(1)} ms`;
    const line = `${method} ${route} ${status}${duration}`;
    const details = {
      requestId,
      method,
      route,
      status,
      durationMs,
      apiKeyId: apiKey?.id,
      clientIp,
    };
    if (isSlow)
      logger.warn(`Slow request: ${line}`, { ...details, waitedMs: getWaits(milliseconds, waits) });
    else logger.debug(line, details);
  };
}

/** Logs an unexpected error with the request that caused it. */
export function logFailedRequest(logger: Logger, request: RequestInfo, error: unknown): void {
  logger.error('Request failed', error, {
    method: request.method,
    route: getRouteLabel(request),
    requestId: request.id,
    apiKeyId: request.apiKey?.id,
  });
}

/** Divides a duration into what the request waited for. What is not measured is its operation. */
function getWaits(
  milliseconds: number,
  { apiKey = 0, body = 0, client = 0 }: RequestInfo['waits'] = {},
): Record<WaitReason | 'operation', number> {
  const operation = milliseconds - apiKey - body - client;
  return {
    apiKey: roundToTenth(apiKey),
    body: roundToTenth(body),
    operation: roundToTenth(operation),
    client: roundToTenth(client),
  };
}

function roundToTenth(milliseconds: number): number {
  return Math.round(milliseconds * 10) / 10;
}
