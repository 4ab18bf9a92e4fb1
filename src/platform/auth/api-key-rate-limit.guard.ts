import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../config/config.js';
import { RateLimiter } from './rate-limiter.js';

/**
 * Limits the requests per minute of each API key, over all operations. It runs after `ApiKeyGuard`, so
 * that invalid keys are not counted. The limit is that of the key, or `KEY_REQUESTS_PER_MINUTE`.
 *
 * @throws {ApiError} TOO_MANY_REQUESTS
 */
@Injectable()
export class ApiKeyRateLimitGuard implements CanActivate {
  private readonly limiter = new RateLimiter('api-key');

  constructor(@Inject(CONFIG) private readonly config: Config) {}

  canActivate(context: ExecutionContext): true {
    const { apiKey } = context.switchToHttp().getRequest<Request>();
    // Only public routes have none.
    if (apiKey === undefined) return true;
    const limit = apiKey.requestsPerMinute ?? this.config.keyRequestsPerMinute;
    if (limit === 0) return true;
    const message = `Rate limit exceeded (${limit} requests per minute).`;
    const headers = this.limiter.consume(String(apiKey.id), limit, message);
    const response = context.switchToHttp().getResponse<Response>();
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    return true;
  }
}
