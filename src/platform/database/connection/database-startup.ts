import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../../config/config.js';
import { StartupError } from '../../errors/startup-error.js';
import { createServiceDataSource } from './create-data-source.js';
import { CHECK_INTERVAL_MS, DatabaseHealth } from './database-health.js';
import { withDeadline } from './deadline.js';
import { DatabaseMetrics } from '../../metrics/database-metrics.js';
import {
  DatabaseUnavailableError,
  describeDriverError,
  getDriverErrorCode,
  isDataOrConstraintError,
  isTemporary,
} from './driver-errors.js';
import { ServiceDataSource, SchemaOutdatedError } from './service-data-source.js';

/** Migrates and opens the database at startup. While that fails, but may succeed later, the application responds 503. */
@Injectable()
export class DatabaseStartup implements OnApplicationBootstrap, OnApplicationShutdown {
  /** Whether the schema is up to date and queries may be sent. */
  isReady = false;
  /** The newest migration in the database, once it could be read. */
  schemaVersion: string | undefined;
  /** Resolves when the database is ready or the application shuts down; rejects if it cannot be used at all. */
  ready: Promise<void> = Promise.resolve();
  private readonly logger = new Logger(DatabaseStartup.name);
  private readonly readyHooks: (() => Promise<void>)[] = [];
  private readonly shutdown = new AbortController();
  private readonly health: DatabaseHealth;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    @InjectDataSource() private readonly dataSource: ServiceDataSource,
    private readonly metrics: DatabaseMetrics,
  ) {
    this.health = new DatabaseHealth(dataSource, this.shutdown.signal);
    dataSource.servesRequests = true;
    this.countErrors(dataSource);
    dataSource.addMetrics(metrics);
    // Metrics are read in this order: the pools before the check, which may itself wait for a connection.
    metrics.observeAvailability(() => this.checkWritable());
  }

  /** Registers a hook, in a constructor or `onModuleInit`, that runs before any request uses the database; again if a later one fails. */
  onReady(hook: () => Promise<void>): void {
    this.readyHooks.push(hook);
  }

  /** @throws {DatabaseUnavailableError} if the database could not be written when it was last checked */
  async checkWritable(): Promise<void> {
    if (!this.isReady) throw new DatabaseUnavailableError();
    await this.health.checkWritable();
  }

  /** @throws {Error} if the database cannot be used and retrying would not help */
  async onApplicationBootstrap(): Promise<void> {
    const error = await this.tryOpen();
    if (error !== undefined) this.ready = this.retryConnect(error);
  }

  onApplicationShutdown(): void {
    this.shutdown.abort();
  }

  private async retryConnect(firstError: unknown): Promise<void> {
    const { signal } = this.shutdown;
    for (let error = firstError; error !== undefined; error = await this.tryOpen()) {
      this.health.recordFailure(error);
      await delay(CHECK_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
    }
  }

  /** @returns the error, if it is worth a retry */
  private async tryOpen(): Promise<unknown> {
    try {
      await this.open();
      return undefined;
    } catch (error) {
      if (isTemporary(error) || error instanceof SchemaOutdatedError) return error;
      throw this.toStartupError(error);
    }
  }

  private async open(): Promise<void> {
    await this.migrate();
    if (this.shutdown.signal.aborted) return;
    // A former attempt, whose hooks failed, may have initialized it.
    if (!this.dataSource.isInitialized) await this.dataSource.initialize();
    await withDeadline(this.dataSource.checkWritable());
    for (const hook of this.readyHooks) await hook();
    this.health.start();
    this.isReady = true;
  }

  /** Uses a connection of its own, to which the timeouts of requests do not apply. */
  private async migrate(): Promise<void> {
    const { database, production } = this.config;
    const migrator = createServiceDataSource(this.dataSource.options);
    this.countErrors(migrator);
    const isNew = database.type === 'sqlite' && !existsSync(database.file);
    await migrator.whileConnected(async () => {
      // In production the path may be mistyped.
      if (isNew)
        this.logger[production ? 'warn' : 'log'](`Created database ${resolve(database.file)}`);
      await migrator.requireSettings();
      if (this.config.migrations === 'off') await migrator.requireCurrentSchema();
      else
        for (const { name } of await migrator.migrate())
          this.logger.log(`Applied migration ${name}`);
      const [newest]: { name: string }[] = await migrator.query(
        'SELECT "name" FROM "migrations" ORDER BY "id" DESC LIMIT 1',
      );
      this.schemaVersion = newest?.name;
    });
  }

  /** Returns an error without the URL of a server, which contains a password. */
  private toStartupError(error: unknown): unknown {
    // An error of the code, such as of a migration or a hook, is logged as it is.
    if (getDriverErrorCode(error) === '') return error;
    const { database } = this.config;
    const name = database.type === 'sqlite' ? ` ${resolve(database.file)}` : '';
    const message = `Failed to open database${name}: ${describeDriverError(error)}`;
    return new StartupError(message, { cause: error });
  }

  /** Counts errors, but those that the data of a request caused. */
  private countErrors(dataSource: ServiceDataSource): void {
    dataSource.onError((error) => {
      if (!isDataOrConstraintError(error))
        this.metrics.errors?.inc({ db_response_status_code: getDriverErrorCode(error) || 'none' });
    });
  }
}
