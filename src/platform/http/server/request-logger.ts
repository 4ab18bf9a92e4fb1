import { Logger } from '@nestjs/common';
import type { HttpAdapter } from './http.adapter.js';
import { operationOf } from './route-label.js';

/**
 * Logs a line for each answer. Called only where debugging is on, so that it costs nothing otherwise.
 * The line names the operation and not the path, in which a key may have been sent by mistake.
 */
export function logRequests(adapter: HttpAdapter): void {
  const logger = new Logger('Http');
  adapter.onAnswer((request, status, milliseconds) => {
    const time = milliseconds === undefined ? '' : ` ${milliseconds.toFixed(1)} ms`;
    logger.debug(`${request.method ?? '-'} ${operationOf(request)} ${status}${time}`, {
      requestId: request.id,
    });
  });
}
