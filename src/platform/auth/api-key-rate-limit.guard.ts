import { createHash } from 'node:crypto';
import { type DynamicModule, type ExecutionContext, Injectable } from '@nestjs/common';
import { ThrottlerGuard, type ThrottlerLimitDetail, ThrottlerModule } from '@nestjs/throttler';
import type { Request } from 'express';
import type { Config } from '../config/config.js';
import { ApiError } from '../errors/api-error.js';
import { extractBearerToken } from './api-key.guard.js';
import { isPublic } from './public.decorator.js';

/** Counts in this process; instances that are to count together need a `storage` that they share. */
export function createThrottlerModule({
  keyRequestsPerMinute: limit,
}: Pick<Config, 'keyRequestsPerMinute'>): DynamicModule {
  // Without a block a key has its next request as soon as the oldest of the last minute is a minute old.
  return ThrottlerModule.forRoot([{ ttl: 60_000, limit, blockDuration: 0 }]);
}

/**
 * Limits how many requests a key may send in a minute, over all operations. It stands behind the
 * `ApiKeyGuard`, so that nothing is counted for a key that is not valid, and only where
 * `KEY_REQUESTS_PER_MINUTE` asks for it.
 *
 * @throws {ApiError} TOO_MANY_REQUESTS
 */
@Injectable()
export class ApiKeyRateLimitGuard extends ThrottlerGuard {
  protected override shouldSkip(context: ExecutionContext): Promise<boolean> {
    return Promise.resolve(isPublic(context.getHandler()));
  }

  protected override getTracker(request: Request): Promise<string> {
    return Promise.resolve(extractBearerToken(request)!);
  }

  /** By default each operation would have a limit of its own. No storage gets to see the key. */
  protected override generateKey(_context: ExecutionContext, key: string): string {
    return createHash('sha256').update(key).digest('hex');
  }

  protected override throwThrottlingException(
    _context: ExecutionContext,
    { limit, timeToBlockExpire }: ThrottlerLimitDetail,
  ): Promise<void> {
    throw new ApiError('TOO_MANY_REQUESTS', `This API key may send ${limit} requests a minute.`, {
      'Retry-After': String(Math.max(1, timeToBlockExpire)),
    });
  }
}
