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
import { isLocked, isUnavailable } from './driver-errors.js';
import { DatabaseMetrics } from './database-metrics.js';
import { databaseOptions } from './data-source-options.js';

/** Milliseconds between two tries to reach a database that is away: the first, and the longest. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/**
 * Opens the database at the start. A PostgreSQL server that is away, or a SQLite file that is locked,
 * is waited for, while the application runs and answers 503.
 */
@Injectable()
export class DatabaseConnection implements OnApplicationBootstrap, OnApplicationShutdown {
  /** The schema is up to date and queries may be sent. */
  isOpen = false;
  /** Resolves when `isOpen` becomes true; rejects where the database cannot be used at all. */
  opened: Promise<void> = Promise.resolve();
  private readonly logger = new Logger(DatabaseConnection.name);
  private readonly tasks: (() => Promise<void>)[] = [];
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
  whenOpen(task: () => Promise<void>): void {
    this.tasks.push(task);
  }

  /** @throws where the database cannot be used, and waiting would not help */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.open();
    } catch (error) {
      const mayRecover =
        this.config.database.type === 'sqlite' ? isLocked(error) : isUnavailable(error);
      if (!mayRecover) throw this.unusable(error as Error);
      this.opened = this.openLater(error as Error);
    }
  }

  onApplicationShutdown(): void {
    this.stop.abort();
  }

  private async openLater(firstError: Error): Promise<void> {
    let error = firstError;
    for (
      let pause = FIRST_PAUSE;
      !this.stop.signal.aborted;
      pause = Math.min(pause * 2, LONGEST_PAUSE)
    ) {
      this.metrics.observe(error);
      this.logger.warn(
        `The database does not answer (${error.message}); trying again in ${pause} ms`,
      );
      await delay(pause, undefined, { signal: this.stop.signal }).catch(() => undefined);
      try {
        return await this.open();
      } catch (reason) {
        if (!isUnavailable(reason)) throw this.unusable(reason as Error);
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
    for (const task of this.tasks) await task();
    this.isOpen = true;
  }

  /** The address of a server holds a password, and is not told. */
  private unusable(error: Error): Error {
    const { database } = this.config;
    const name = database.type === 'sqlite' ? `The database ${database.file}` : 'The database';
    return new Error(`${name} cannot be used: ${error.message}`, { cause: error });
  }
}
