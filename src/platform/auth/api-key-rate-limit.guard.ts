import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../config/config.js';
import { extractBearerToken } from './api-key.guard.js';
import { hashKey } from './api-keys.service.js';
import { isPublic } from './public.decorator.js';
import { RateLimiter } from './rate-limiter.js';

/**
 * Limits the requests per minute of each API key, over all operations. It runs after `ApiKeyGuard`, so
 * that invalid keys are not counted. `KEY_REQUESTS_PER_MINUTE` sets the limit; by default there is none.
 *
 * @throws {ApiError} TOO_MANY_REQUESTS
 */
@Injectable()
export class ApiKeyRateLimitGuard implements CanActivate {
  private readonly limiter: RateLimiter | undefined;

  constructor(@Inject(CONFIG) { keyRequestsPerMinute: limit }: Config) {
    if (limit === 0) return;
    const message = `Rate limit exceeded (${limit} requests per minute).`;
    this.limiter = new RateLimiter('api-key', limit, message);
  }

  canActivate(context: ExecutionContext): true | Promise<true> {
    if (this.limiter === undefined || isPublic(context.getHandler())) return true;
    return this.consume(this.limiter, context);
  }

  private async consume(limiter: RateLimiter, context: ExecutionContext): Promise<true> {
    const http = context.switchToHttp();
    const key = extractBearerToken(http.getRequest<Request>())!;
    // The limiter stores a hash: the key itself stays in the key cache only.
    const headers = await limiter.consume(hashKey(key));
    const response = http.getResponse<Response>();
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    return true;
  }
}
