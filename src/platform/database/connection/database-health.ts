import { Logger } from '@nestjs/common';
import { requestContext } from '../../logging/logger.js';
import { withDeadline } from './deadline.js';
import {
  DatabaseUnavailableError,
  describeDriverError,
  DISK_FULL,
  getDriverErrorCode,
} from './driver-errors.js';
import { SchemaOutdatedError, type ServiceDataSource } from './service-data-source.js';

/** How long the result of a check is valid, and how long a failed start waits until the next attempt, in milliseconds. */
export const CHECK_INTERVAL_MS = 1_000;

/** How long all checks and statements must succeed until an outage is over, in milliseconds. */
const STABLE_MS = 5_000;

/**
 * Checks whether the database can be written, for `/readyz` and after a failed statement, at most once per second. During an
 * outage, which begins with a failure and ends five seconds after the last one, it is checked every second. The log has a
 * line for each reason, and one for its end.
 */
export class DatabaseHealth {
  /** The check in progress, or of the last second. */
  private check: Promise<void> | undefined;
  /** When something first and last failed in the current outage, and why. */
  private outage:
    { start: number; lastFailure: number; reasons: Set<string>; isDiskFull?: boolean } | undefined;
  private readonly logger = new Logger('Database');

  /** @param shutdown aborted when the application shuts down */
  constructor(
    private readonly dataSource: ServiceDataSource,
    private readonly shutdown: AbortSignal,
  ) {}

  /** Begins to watch statements, and checks until an outage of the start is over. Call it once the database can be used. */
  start(): void {
    this.expire();
    this.dataSource.onError((error) => {
      if (!(error instanceof DatabaseUnavailableError)) return;
      this.recordFailure(error);
      // While a check is valid, the next one follows once it has expired.
      if (this.check === undefined) this.expire();
    });
  }

  /** @throws {DatabaseUnavailableError} if the database could not be written when it was last checked */
  checkWritable(): Promise<void> {
    return (this.check ??= requestContext.run(undefined, () => this.runCheck()));
  }

  /** Records a failure of a statement, a check or a start. */
  recordFailure(error: unknown): void {
    const now = performance.now();
    this.outage ??= { start: now, lastFailure: now, reasons: new Set() };
    this.outage.lastFailure = now;
    this.outage.isDiskFull ||= getDriverErrorCode(error) === DISK_FULL;
    const reason = describeDriverError(error).replace(/\.$/, '');
    if (this.outage.reasons.has(reason)) return;
    this.outage.reasons.add(reason);
    const retry = `retrying every ${CHECK_INTERVAL_MS} ms`;
    if (error instanceof SchemaOutdatedError) this.logger.warn(`${reason}; ${retry}`);
    else this.logger.error(`Database connection failed: ${reason}, ${retry}`);
  }

  /** Ends the validity of the last check, and checks again during an outage. */
  private expire(): void {
    this.check = undefined;
    if (this.outage && !this.shutdown.aborted) this.checkWritable().catch(() => undefined);
  }

  private async runCheck(): Promise<void> {
    try {
      await withDeadline(this.dataSource.checkWritable(this.outage !== undefined));
      this.recordSuccess();
    } catch (error) {
      this.recordFailure(error);
      // A check has no effect that its client could ask about.
      throw new DatabaseUnavailableError(error);
    } finally {
      setTimeout(() => this.expire(), CHECK_INTERVAL_MS).unref();
    }
    // A disk that has no space for rows may still have some for the check.
    if (this.outage?.isDiskFull) throw new DatabaseUnavailableError();
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
