import { Logger } from '@nestjs/common';
import type { Config } from '../../config/config.js';
import { isLogged } from '../../logging/logger.js';
import type { RequestInfo, WaitReason } from './request-info.js';
import type { ResponseListener } from './response-listener.js';
import { getRouteLabel } from '../../metrics/route-label.js';

/**
 * Creates a listener that logs a line for each response: at `warn` if the request was slow, otherwise at
 * `info` with `LOG_REQUESTS=true`, at `debug` without. The line has the route pattern, not the path, which
 * may contain a key that was sent there by mistake.
 */
export function createRequestLogger(
  config: Pick<Config, 'logLevel' | 'logRequests' | 'slowRequestThreshold'>,
): ResponseListener {
  const logger = new Logger('Http');
  const threshold = config.slowRequestThreshold || Number.POSITIVE_INFINITY;
  const logsAll = isLogged(config, config.logRequests ? 'info' : 'debug');
  return (request, status, milliseconds) => {
    const isSlow = milliseconds !== undefined && milliseconds >= threshold;
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
    else if (config.logRequests) logger.log(line, details);
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
