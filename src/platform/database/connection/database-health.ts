import { Logger } from '@nestjs/common';
import { requestContext } from '../../logging/logger.js';
import { withDeadline } from './deadline.js';
import { DatabaseUnavailableError, describeDriverError } from './driver-errors.js';
import type { ServiceDataSource } from './service-data-source.js';

/** How long the result of a check is valid, in milliseconds. */
const CHECK_INTERVAL_MS = 1_000;

/** How long no check and no statement fails until an outage is over, in milliseconds. */
const STABLE_MS = 5_000;

/**
 * Checks whether the database can be written, for `/readyz` and after a failed statement, at most once per second. During an
 * outage, which begins with a failure and ends five seconds after the last one, it is checked every second. The log has a
 * line for its beginning and one for its end.
 */
export class DatabaseHealth {
  /** The check in progress, or of the last second. */
  private check: Promise<void> | undefined;
  /** When something first and last failed in the current outage. */
  private outage: { readonly start: number; readonly lastFailure: number } | undefined;
  private readonly logger = new Logger('Database');

  /** @param shutdown aborted when the application shuts down */
  constructor(
    private readonly dataSource: ServiceDataSource,
    private readonly shutdown: AbortSignal,
  ) {}

  /** Begins to watch statements. Call it once the database can be used. */
  start(): void {
    this.dataSource.onError((error) => {
      if (!(error instanceof DatabaseUnavailableError)) return;
      this.recordFailure(error);
      // If there is a check, the next one follows once it has expired.
      if (this.check === undefined) this.expire();
    });
  }

  /** @throws {DatabaseUnavailableError} if the database could not be written when it was last checked */
  requireWritable(): Promise<void> {
    return (this.check ??= requestContext.run(undefined, () => this.runCheck()));
  }

  /** Ends the validity of the last check, and checks again during an outage. */
  private expire(): void {
    this.check = undefined;
    if (this.outage && !this.shutdown.aborted) this.requireWritable().catch(() => undefined);
  }

  private async runCheck(): Promise<void> {
    try {
      await withDeadline(this.dataSource.requireWritable(this.outage !== undefined));
      this.recordSuccess();
    } catch (error) {
      this.recordFailure(error);
      // The client of a check does not ask whether it had an effect.
      throw new DatabaseUnavailableError(error);
    } finally {
      setTimeout(() => this.expire(), CHECK_INTERVAL_MS).unref();
    }
  }

  private recordFailure(error: unknown): void {
    const now = performance.now();
    if (this.outage === undefined) {
      const reason = describeDriverError(error).replace(/\.$/, '');
      this.logger.error(
        `Database connection failed: ${reason}, retrying every ${CHECK_INTERVAL_MS} ms`,
      );
    }
    this.outage = { start: this.outage?.start ?? now, lastFailure: now };
  }

  private recordSuccess(): void {
    if (this.outage === undefined) return;
    const { start, lastFailure } = this.outage;
    if (performance.now() - lastFailure < STABLE_MS) return;
    this.outage = undefined;
    const seconds = (lastFailure - start) / 1_000;
    this.logger.log(`Database connection restored after ${seconds.toFixed(1)} s`);
  }
}
