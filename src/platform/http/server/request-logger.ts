import { Logger } from '@nestjs/common';
import type { HttpAdapter } from './http.adapter.js';
import { getRouteLabel } from './route-label.js';

/**
 * Logs a line for each answer. Called only where debugging is on, so that it costs nothing otherwise.
 * The line names the operation and not the path, in which a key may have been sent by mistake.
 */
export function registerRequestLogger(adapter: HttpAdapter): void {
  const logger = new Logger('Http');
  adapter.onResponse((request, status, milliseconds) => {
    const time = milliseconds === undefined ? '' : ` ${milliseconds.toFixed(1)} ms`;
    logger.debug(`${request.method ?? '-'} ${getRouteLabel(request)} ${status}${time}`, {
      requestId: request.id,
    });
  });
}
