import { setTimeout as delay } from 'node:timers/promises';
import {
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { DatabaseStartup } from '../database/connection/database-startup.js';
import {
  DatabaseUnavailableError,
  describeDriverError,
} from '../database/connection/driver-errors.js';
import { getDialect } from '../database/connection/service-data-source.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';

/** How long a record is kept at least, in milliseconds; the trigger has it, too. */
const LIFETIME_MS = 24 * 60 * 60 * 1_000;
/** SQLite: nothing is deleted for ten minutes after the start, until NTP has set a wrong clock. */
const CLOCK_DELAY_MS = 10 * 60 * 1_000;
/** How many records a statement deletes, in about 10 ms. */
const MAX_DELETED = 1_000;
/**
 * The delay after a statement that deleted as many as it may, and after one that deleted all, in milliseconds. On SQLite,
 * each statement makes every list read its table again.
 */
const BUSY_DELAY_MS = 1_000;
const IDLE_DELAY_MS = 60_000;

/** Deletes records of Idempotency-Keys that are older than 24 hours, a few at a time. */
@Injectable()
export class IdempotencyRecordsCleanup implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly logger = new Logger(IdempotencyRecordsCleanup.name);
  private readonly shutdown = new AbortController();

  constructor(
    @InjectDataSource() private readonly dataSource: DataSource,
    private readonly database: DatabaseStartup,
  ) {}

  onApplicationBootstrap(): void {
    void this.run();
  }

  onApplicationShutdown(): void {
    this.shutdown.abort();
  }

  /** Deletes the oldest expired records, and returns how many, at most 1,000. */
  async deleteExpired(): Promise<number> {
    const uptime = performance.now();
    const { clock } = getDialect(this.dataSource);
    if (clock === undefined && uptime < CLOCK_DELAY_MS) return 0;
    const { affected } = await this.dataSource
      .createQueryBuilder()
      .delete()
      .from(IdempotencyRecord)
      .where(
        `("api_key_id", "key") IN (
          SELECT "api_key_id", "key" FROM "idempotency_records"
          WHERE "created_at" < ${clock ?? ':now'} - ${LIFETIME_MS} ORDER BY "created_at" LIMIT ${MAX_DELETED})`,
        // A clock that has been set forward does not make records older.
        { now: Math.floor(Math.min(Date.now(), performance.timeOrigin + uptime)) },
      )
      .execute();
    return affected ?? 0;
  }

  private async run(): Promise<void> {
    const { signal } = this.shutdown;
    while (!signal.aborted) {
      let deleted = 0;
      try {
        if (this.database.isReady) deleted = await this.deleteExpired();
      } catch (error) {
        // DatabaseHealth logs the outage.
        if (!(error instanceof DatabaseUnavailableError))
          this.logger.warn(`Failed to delete expired records: ${describeDriverError(error)}`);
      }
      const pause = deleted === MAX_DELETED ? BUSY_DELAY_MS : IDLE_DELAY_MS;
      await delay(pause, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}
