import { type ArgumentsHost, Catch, type ExceptionFilter, Logger } from '@nestjs/common';
import type { Request, Response } from 'express';
import { isUnavailable, databaseUnavailable } from '../database/driver-errors.js';
import { DatabaseMetrics } from '../database/database-metrics.js';
import { getRouteLabel } from './server/route-label.js';
import { sendError, toErrorResponse } from './responses/error-response.js';

/** The one place that answers with an error: whatever was thrown becomes `{ code, message, status }`. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger(ErrorFilter.name);

  constructor(private readonly metrics: DatabaseMetrics) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    this.metrics.recordError(error);
    const errorResponse = toErrorResponse(
      isUnavailable(error) ? databaseUnavailable(error) : error,
    );
    // 501 is an answer by design, not a failure.
    if (errorResponse.body.status >= 500 && errorResponse.body.status !== 501) {
      this.logger.error(`${request.method} ${getRouteLabel(request)} failed`, error, {
        requestId: request.id,
      });
    }
    if (response.destroyed) return;
    // Half an answer cannot be taken back: cut it, so that the client sees that it is not whole.
    if (response.headersSent) response.destroy();
    else sendError(response, errorResponse);
  }
}
