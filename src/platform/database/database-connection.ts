import { setTimeout as delay } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { PetstoreDataSource } from './petstore-data-source.js';
import { isBusyError, isUnavailable } from './driver-errors.js';
import { DatabaseMetrics } from './database-metrics.js';
import { databaseOptions } from './data-source-options.js';

/** Milliseconds between two tries to reach a database that is away: the first, and the longest. */
const INITIAL_RETRY_DELAY_MS = 500;
const MAX_RETRY_DELAY_MS = 15_000;

/**
 * Opens the database at the start. A PostgreSQL server that is away, or a SQLite file that is locked,
 * is waited for, while the application runs and answers 503.
 */
@Injectable()
export class DatabaseConnection implements OnApplicationBootstrap, OnApplicationShutdown {
  /** The schema is up to date and queries may be sent. */
  isReady = false;
  /** Resolves when `isOpen` becomes true; rejects where the database cannot be used at all. */
  ready: Promise<void> = Promise.resolve();
  private readonly logger = new Logger(DatabaseConnection.name);
  private readonly readyHooks: (() => Promise<void>)[] = [];
  private readonly stop = new AbortController();

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    @InjectDataSource() private readonly dataSource: DataSource,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Runs a task once the database is open, before any request is let through to it. To be called
   * before the application is initialised, as in `onModuleInit`.
   */
  onReady(task: () => Promise<void>): void {
    this.readyHooks.push(task);
  }

  /** @throws where the database cannot be used, and waiting would not help */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.open();
    } catch (error) {
      const mayRecover =
        this.config.database.type === 'sqlite' ? isBusyError(error) : isUnavailable(error);
      if (!mayRecover) throw this.toStartupError(error as Error);
      this.ready = this.retryConnect(error as Error);
    }
  }

  onApplicationShutdown(): void {
    this.stop.abort();
  }

  private async retryConnect(firstError: Error): Promise<void> {
    let error = firstError;
    for (
      let retryDelay = INITIAL_RETRY_DELAY_MS;
      !this.stop.signal.aborted;
      retryDelay = Math.min(retryDelay * 2, MAX_RETRY_DELAY_MS)
    ) {
      this.metrics.recordError(error);
      this.logger.warn(
        `The database does not answer (${error.message}); trying again in ${retryDelay} ms`,
      );
      await delay(retryDelay, undefined, { signal: this.stop.signal }).catch(() => undefined);
      try {
        return await this.open();
      } catch (reason) {
        if (!isUnavailable(reason)) throw this.toStartupError(reason as Error);
        error = reason as Error;
      }
    }
  }

  private async open(): Promise<void> {
    // On a connection of its own, which the service's limits for a query do not hold for.
    const migrator = new PetstoreDataSource(databaseOptions(this.config.database));
    try {
      for (const { name } of await migrator.open()) this.logger.log(`Migrated: ${name}`);
    } finally {
      if (migrator.isInitialized) await migrator.destroy();
    }
    // It is after a try whose tasks failed.
    if (!this.dataSource.isInitialized) await this.dataSource.initialize();
    await (this.dataSource as PetstoreDataSource).waitWithoutBlocking();
    for (const task of this.readyHooks) await task();
    this.isReady = true;
  }

  /** The address of a server holds a password, and is not told. */
  private toStartupError(error: Error): Error {
    const { database } = this.config;
    const name = database.type === 'sqlite' ? `The database ${database.file}` : 'The database';
    return new Error(`${name} cannot be used: ${error.message}`, { cause: error });
  }
}
