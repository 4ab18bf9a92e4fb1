import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { Request, Response } from 'express';
import type { DataSource } from 'typeorm';
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
  /** The limiters, by their limit: the library has one limit for all keys of a limiter. */
  private readonly limiters = new Map<number, RateLimiter>();

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    @InjectDataSource() private readonly dataSource: DataSource,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    const { apiKey } = context.switchToHttp().getRequest<Request>();
    // Only public routes have none.
    if (apiKey === undefined) return true;
    const limit = apiKey.requestsPerMinute ?? this.config.keyRequestsPerMinute;
    return limit === 0 || this.consume(limit, apiKey.id, context);
  }

  private async consume(limit: number, id: number, context: ExecutionContext): Promise<true> {
    const headers = await this.getLimiter(limit).consume(String(id));
    const response = context.switchToHttp().getResponse<Response>();
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    return true;
  }

  private getLimiter(limit: number): RateLimiter {
    let limiter = this.limiters.get(limit);
    if (limiter === undefined) {
      const message = `Rate limit exceeded (${limit} requests per minute).`;
      const database = this.config.keyLimitStore === 'database' ? this.dataSource : undefined;
      limiter = new RateLimiter('api-key', limit, message, database);
      this.limiters.set(limit, limiter);
    }
    return limiter;
  }
}
