import { type ArgumentsHost, Catch, type ExceptionFilter, Logger } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { sendError, toErrorResponse } from './responses/error-response.js';
import { logFailedRequest } from './server/request-logger.js';

/** Responds to every error with the body `{ code, message, status }`. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger(ErrorFilter.name);

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    const errorResponse = toErrorResponse(error);
    const { status } = errorResponse.body;
    request.error = error;
    // 501 is intended, not a failure.
    const skipLog = status === 501 || (error instanceof ApiError && error.skipLog);
    if (status >= 500 && !skipLog) logFailedRequest(this.logger, request, error);
    if (response.destroyed) return;
    // A response that has begun cannot be changed: closing the connection shows that it is incomplete.
    if (response.headersSent) response.destroy();
    else sendError(response, errorResponse);
  }
}
