import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { requestContext } from '../logging/logger.js';

/** How long an indicator may take, and how long a result is valid, in milliseconds. */
const TIMEOUT_MS = 2_000;
const INTERVAL_MS = 1_000;

/** Checks for `/readyz` whether the modules are ready. */
@Injectable()
export class Readiness {
  private readonly logger = new Logger(Readiness.name);
  private readonly checks: (() => Promise<void>)[] = [];
  /** The checks in progress or of the last second. Requests share them: `/readyz` needs no key, and may be flooded. */
  private result: Promise<unknown> | undefined;

  /**
   * Adds an indicator to `/readyz`, which calls it at most once per second.
   *
   * @param module its name, for the log
   * @param indicator throws while the module is not ready; it has two seconds
   */
  add(module: string, indicator: () => Promise<void>): void {
    let isReady = true;
    this.checks.push(async () => {
      try {
        const timeout = delay(TIMEOUT_MS, 'timeout' as const, { ref: false });
        if ((await Promise.race([indicator(), timeout])) === 'timeout')
          throw new Error(`The indicator had no result within ${TIMEOUT_MS} ms`);
        if (!isReady) this.logger.log(`The module ${module} is ready again`);
        isReady = true;
      } catch (error) {
        if (isReady) this.logger.error(`The module ${module} is not ready`, error);
        isReady = false;
        const message = 'Service temporarily unavailable. Please retry later.';
        const headers = { 'Retry-After': '1' };
        throw new ApiError('SERVICE_UNAVAILABLE', message, { headers, skipLog: true });
      }
    });
  }

  /** @throws {ApiError} SERVICE_UNAVAILABLE if a module was not ready when it was last checked */
  async requireReady(): Promise<void> {
    const run = () => Promise.all(this.checks.map((check) => check()));
    this.result ??= requestContext.run(undefined, run).finally(() => {
      setTimeout(() => (this.result = undefined), INTERVAL_MS).unref();
    });
    await this.result;
  }
}
