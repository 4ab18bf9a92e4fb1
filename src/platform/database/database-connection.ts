import { setTimeout as delay } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { databaseOptions } from './data-source-options.js';
import { DatabaseMetrics } from './database-metrics.js';
import { DatabaseUnavailableError, getDriverError, isBusyError } from './driver-errors.js';
import { PetstoreDataSource, SchemaOutdatedError } from './petstore-data-source.js';

/** The delays between two attempts to connect, in milliseconds: the first and the longest. */
const INITIAL_RETRY_DELAY_MS = 500;
const MAX_RETRY_DELAY_MS = 15_000;

/**
 * Connects to the database at startup. While a PostgreSQL server is unavailable, a SQLite file is locked
 * or, with `MIGRATIONS=off`, the schema is outdated, the application runs and responds 503.
 */
@Injectable()
export class DatabaseConnection implements OnApplicationBootstrap, OnApplicationShutdown {
  /** Whether the schema is up to date and queries may be sent. */
  isReady = false;
  /** Resolves when the database is ready or the application shuts down; rejects if it cannot be used at all. */
  ready: Promise<void> = Promise.resolve();
  private readonly logger = new Logger(DatabaseConnection.name);
  private readonly readyHooks: (() => Promise<void>)[] = [];
  private readonly shutdown = new AbortController();

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    @InjectDataSource() private readonly dataSource: PetstoreDataSource,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Registers a hook that runs once the database is reachable, before any request uses it, and again if
   * a later hook fails. Call it before the application is initialized, as in `onModuleInit`.
   */
  onReady(hook: () => Promise<void>): void {
    this.readyHooks.push(hook);
  }

  /** @throws {Error} if the database cannot be used and retrying would not help */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.open();
    } catch (error) {
      if (!this.isRetryable(error)) throw this.toStartupError(error);
      this.ready = this.retryConnect(error);
    }
  }

  onApplicationShutdown(): void {
    this.shutdown.abort();
  }

  private async retryConnect(firstError: unknown): Promise<void> {
    const { signal } = this.shutdown;
    let error = firstError;
    for (
      let retryDelay = INITIAL_RETRY_DELAY_MS;
      !signal.aborted;
      retryDelay = Math.min(retryDelay * 2, MAX_RETRY_DELAY_MS)
    ) {
      this.logger.warn(
        error instanceof SchemaOutdatedError
          ? `${error.message} Checking again in ${retryDelay} ms`
          : `Database connection failed (${getMessage(error)}), retrying in ${retryDelay} ms`,
      );
      await delay(retryDelay, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        return await this.open();
      } catch (reason) {
        if (!this.isRetryable(reason)) throw this.toStartupError(reason);
        error = reason;
      }
    }
  }

  private async open(): Promise<void> {
    await this.migrate();
    if (this.shutdown.signal.aborted) return;
    // After an attempt whose hooks failed it is initialized already.
    if (!this.dataSource.isInitialized) await this.dataSource.initialize();
    await this.dataSource.waitForLocksAsynchronously();
    for (const hook of this.readyHooks) await hook();
    this.isReady = true;
  }

  /** Uses a connection of its own, to which the query timeout of the service does not apply. */
  private async migrate(): Promise<void> {
    const { entities, migrations } = this.dataSource.options;
    const migrator = new PetstoreDataSource(
      databaseOptions(this.config.database, { entities: entities!, migrations: migrations! }),
    );
    migrator.onDriverError = (error) => this.metrics.recordError(error);
    try {
      await migrator.initialize();
      if (this.config.migrations === 'off') await migrator.requireCurrentSchema();
      else
        for (const { name } of await migrator.migrate())
          this.logger.log(`Applied migration ${name}`);
    } finally {
      if (migrator.isInitialized) await migrator.destroy();
    }
  }

  /** Only a lock or an outdated schema is worth waiting for on SQLite. */
  private isRetryable(error: unknown): boolean {
    const isUnavailable =
      this.config.database.type === 'sqlite'
        ? isBusyError(error)
        : error instanceof DatabaseUnavailableError;
    return isUnavailable || error instanceof SchemaOutdatedError;
  }

  /** The message does not contain the URL of a server, which contains a password. */
  private toStartupError(error: unknown): Error {
    const { database } = this.config;
    const name = database.type === 'sqlite' ? ` ${database.file}` : '';
    return new Error(`Failed to open database${name}: ${getMessage(error)}`, { cause: error });
  }
}

function getMessage(error: unknown): string {
  return ((getDriverError(error) ?? error) as Error).message;
}
