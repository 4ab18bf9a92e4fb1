import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { isPostgres } from '../statements/columns.js';
import { withDeadline } from './deadline.js';
import {
  DatabaseUnavailableError,
  describeDriverError,
  getDriverErrorCode,
  getRemedy,
} from './driver-errors.js';
import { PetstoreDataSource } from './petstore-data-source.js';
import { requireSpace } from './sqlite-file.js';

/** The first and the longest delay between two checks of a database that has failed, in milliseconds. */
const INITIAL_CHECK_DELAY_MS = 100;
const MAX_CHECK_DELAY_MS = 1_000;

/** A period in which statements fail. */
interface Incident {
  readonly startedAt: number;
  readonly cause: DatabaseUnavailableError;
  lastFailureAt: number;
  /** The codes of the errors that were logged. */
  readonly loggedCodes: Set<string>;
}

/**
 * Tracks whether the database can be written. A statement that fails because the database is unavailable
 * begins an incident. The database is then checked until a check succeeds and no other statement fails for
 * a second. The incident is logged in two lines, or in one if the first check succeeds. An error that the
 * operator can remedy gets a line of its own if it appears later, as a rejected password does after the
 * connections have been lost.
 */
@Injectable()
export class DatabaseAvailability implements OnApplicationShutdown {
  /** Whether the last check succeeded. */
  private isAvailable = true;
  private isStarted = false;
  private incident: Incident | undefined;
  private refusedRequests = 0;
  private readonly logger = new Logger('Database');
  private readonly shutdown = new AbortController();

  constructor(@InjectDataSource() private readonly dataSource: PetstoreDataSource) {}

  /** Begins to track failures. Call it once the database can be used. */
  start(): void {
    this.isStarted = true;
    this.dataSource.errorListeners.push((error) => {
      if (error instanceof DatabaseUnavailableError) this.recordFailure(error);
    });
  }

  onApplicationShutdown(): void {
    this.shutdown.abort();
  }

  /**
   * Checks that the database can be written now.
   *
   * @throws {DatabaseUnavailableError} if it cannot, or could not when it was last checked
   */
  async requireWritable(): Promise<void> {
    if (!this.isAvailable) throw new DatabaseUnavailableError();
    await this.write('1 = 0');
  }

  /** Counts a request that got 503. Its error may be the first sign of an incident, if its deadline passed. */
  recordRefusedRequest(error: DatabaseUnavailableError): void {
    if (this.isStarted && this.incident === undefined) this.recordFailure(error);
    this.refusedRequests++;
  }

  /** Describes an outage for the log: its length, and the requests that were refused since the last one. */
  describeOutage(milliseconds: number): string {
    return `${(milliseconds / 1_000).toFixed(1)} s; ${this.takeRefusedRequests()}`;
  }

  private takeRefusedRequests(): string {
    const count = this.refusedRequests;
    this.refusedRequests = 0;
    return count === 1 ? '1 request was refused' : `${count} requests were refused`;
  }

  private recordFailure(cause: DatabaseUnavailableError): void {
    const now = performance.now();
    if (this.incident !== undefined) {
      this.incident.lastFailureAt = now;
      if (this.incident.loggedCodes.size > 0) this.logFailure(this.incident, cause);
      return;
    }
    this.refusedRequests = 0;
    this.incident = { startedAt: now, cause, lastFailureAt: now, loggedCodes: new Set() };
    void this.resolve(this.incident);
  }

  /** Checks the database until it works again, and logs the incident. */
  private async resolve(incident: Incident): Promise<void> {
    const { signal } = this.shutdown;
    for (let retryDelay = INITIAL_CHECK_DELAY_MS; ; retryDelay *= 2) {
      const checkedAt = performance.now();
      this.isAvailable = await this.check();
      if (!this.isAvailable) this.logFailure(incident, incident.cause);
      const pause = this.isAvailable
        ? MAX_CHECK_DELAY_MS
        : Math.min(retryDelay, MAX_CHECK_DELAY_MS);
      await delay(pause, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      // Other statements may fail although the check succeeds, for example if a table is locked.
      if (this.isAvailable && incident.lastFailureAt <= checkedAt) {
        this.logEnd(incident, checkedAt);
        this.incident = undefined;
        return;
      }
      this.logFailure(incident, incident.cause);
    }
  }

  private async check(): Promise<boolean> {
    try {
      if (isPostgres(this.dataSource)) await this.write('1 = 0');
      else {
        await this.write('"id" = 1');
        await requireSpace(this.dataSource.options.database as string);
      }
      return true;
    } catch {
      return false;
    }
  }

  /** Updates a table without a change. Even without a row, a read-only database rejects it. */
  private async write(condition: string): Promise<void> {
    const table = isPostgres(this.dataSource) ? 'revisions' : 'migrations';
    await withDeadline(
      this.dataSource.query(`UPDATE "${table}" SET "name" = "name" WHERE ${condition}`),
    );
  }

  private logFailure({ loggedCodes }: Incident, error: DatabaseUnavailableError): void {
    const code = getDriverErrorCode(error);
    const isNew = loggedCodes.size === 0 || getRemedy(code) !== undefined;
    if (!isNew || loggedCodes.has(code)) return;
    loggedCodes.add(code);
    this.logger.error(`Database unavailable: ${describeDriverError(error)}`);
  }

  private logEnd({ startedAt, cause, loggedCodes }: Incident, endedAt: number): void {
    if (loggedCodes.size > 0) {
      this.logger.log(`Database available again after ${this.describeOutage(endedAt - startedAt)}`);
    } else {
      const refused = this.takeRefusedRequests();
      this.logger.warn(`Database failed briefly; ${refused}: ${describeDriverError(cause)}`);
    }
  }
}
