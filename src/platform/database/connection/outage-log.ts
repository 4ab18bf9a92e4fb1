import { Logger } from '@nestjs/common';
import { type DatabaseUnavailableError, describeDriverError } from './driver-errors.js';

/** How long the result of a check is valid, in milliseconds. */
export const CHECK_INTERVAL_MS = 1_000;

/** How long no check and no statement fails until an outage is over, in milliseconds. */
const STABLE_MS = 5_000;

/** A period in which checks or statements fail. */
interface Outage {
  readonly startedAt: number;
  readonly error: DatabaseUnavailableError;
  /** When a check first succeeded since the last failure. */
  recoveredAt?: number | undefined;
  isLogged: boolean;
}

/** Logs an outage in two lines, also if only some statements fail; if it was shorter than a second, in one. */
export class OutageLog {
  private outage: Outage | undefined;
  private readonly logger = new Logger('Database');

  /** Whether something has failed in the last five seconds. */
  get isOutage(): boolean {
    return this.outage !== undefined;
  }

  /** Whether no check has succeeded since the last failure. */
  get isFailing(): boolean {
    return this.outage !== undefined && this.outage.recoveredAt === undefined;
  }

  /** Logs the first failed check, or the first statement that fails after more than a second. */
  recordFailure(error: DatabaseUnavailableError, isCheck = false): void {
    const now = performance.now();
    const outage = (this.outage ??= { startedAt: now, error, isLogged: false });
    outage.recoveredAt = undefined;
    if (outage.isLogged || (!isCheck && now - outage.startedAt < CHECK_INTERVAL_MS)) return;
    outage.isLogged = true;
    const reason = describeDriverError(error).replace(/\.$/, '');
    this.logger.error(
      `Database connection failed: ${reason}, retrying every ${CHECK_INTERVAL_MS} ms`,
    );
  }

  /** Logs the end of an outage once no check has failed for a while. */
  recordSuccess(): void {
    if (this.outage === undefined) return;
    const { startedAt, error, isLogged } = this.outage;
    const now = performance.now();
    const recoveredAt = (this.outage.recoveredAt ??= now);
    if (now - recoveredAt < STABLE_MS) return;
    this.outage = undefined;
    const seconds = (recoveredAt - startedAt) / 1_000;
    if (isLogged) this.logger.log(`Database connection restored after ${seconds.toFixed(1)} s`);
    else this.logger.warn(`Database failed briefly: ${describeDriverError(error)}`);
  }
}
