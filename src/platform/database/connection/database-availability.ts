import { requestContext } from '../../logging/logger.js';
import { withDeadline } from './deadline.js';
import { DatabaseUnavailableError } from './driver-errors.js';
import { CHECK_INTERVAL_MS, OutageLog } from './outage-log.js';
import type { ServiceDataSource } from './service-data-source.js';

/**
 * Checks whether the database can be written, for `/readyz` and after a failed statement, at most once per second. It is
 * checked every second until nothing has failed for five.
 */
export class DatabaseAvailability {
  /** The check in progress, or of the last second. */
  private check: Promise<void> | undefined;
  private readonly log = new OutageLog();

  /** @param shutdown aborted when the application shuts down */
  constructor(
    private readonly dataSource: ServiceDataSource,
    private readonly shutdown: AbortSignal,
  ) {}

  /** Begins to watch statements. Call it once the database can be used. */
  start(): void {
    this.dataSource.onError((error) => {
      if (!(error instanceof DatabaseUnavailableError)) return;
      this.log.recordFailure(error);
      // Otherwise there is a check once the last one has expired.
      if (this.check === undefined) this.expire();
    });
  }

  /** @throws {DatabaseUnavailableError} if the database could not be written when it was last checked */
  requireWritable(): Promise<void> {
    return (this.check ??= requestContext.run(undefined, () => this.runCheck()));
  }

  /** Ends the validity of the last check, and checks again if something is wrong. */
  private expire(): void {
    this.check = undefined;
    if (this.log.isOutage && !this.shutdown.aborted) this.requireWritable().catch(() => undefined);
  }

  private async runCheck(): Promise<void> {
    try {
      await withDeadline(this.dataSource.requireWritable(this.log.isFailing));
      this.log.recordSuccess();
    } catch (error) {
      this.log.recordFailure(error as DatabaseUnavailableError, true);
      // The client of a check does not ask whether it had an effect.
      throw new DatabaseUnavailableError(error);
    } finally {
      setTimeout(() => this.expire(), CHECK_INTERVAL_MS).unref();
    }
  }
}
