import {
  DataSource,
  type EntityManager,
  Migration,
  MigrationExecutor,
  type QueryRunner,
} from 'typeorm';
import type { ReplicationMode } from 'typeorm/driver/types/ReplicationMode.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import type { Dialect } from './dialect.js';
import { StartupError } from '../../errors/startup-error.js';
import {
  DatabaseUnavailableError,
  describeDriverError,
  getDriverErrorCode,
  isTemporary,
  PLATFORM_TABLE,
  translateDriverError,
} from './driver-errors.js';

/** The schema is older than the code, or another process is migrating it. */
export class SchemaOutdatedError extends Error {
  override readonly name = 'SchemaOutdatedError';
}

/** Runs migrations, and names the one that fails. */
class NamingExecutor extends MigrationExecutor {
  protected override getMigrations(): Migration[] {
    return super.getMigrations().map(({ id, timestamp, name, instance }) => {
      const run = (direction: 'up' | 'down') => (queryRunner: QueryRunner) =>
        instance![direction](queryRunner).catch((error: unknown) => {
          if (isTemporary(error)) throw error;
          const message = `Migration ${name} failed: ${describeDriverError(error)}`;
          if (getDriverErrorCode(error) !== '') throw new StartupError(message);
          throw Object.assign(error as Error, { message });
        });
      const named = { up: run('up'), down: run('down') };
      return new Migration(id, timestamp, name, Object.assign(Object.create(instance!), named));
    });
  }
}

/** Returns how the SQL of a database differs from that of the other. */
export function getDialect(dataSource: DataSource): Dialect {
  return (dataSource as ServiceDataSource).dialect;
}

/** The query runner of a {@link ServiceDataSource}. */
export interface ServiceQueryRunner extends QueryRunner {
  /** Runs a statement of a transaction; on PostgreSQL together with the next one, which rejects if it fails. */
  queryWithNext(query: string, parameters?: unknown[]): Promise<void>;
}

/** Runs a statement that changes nothing, and returns its rows. */
export type ReadRows = <Row>(query: string, parameters: unknown[]) => Promise<Row[]>;

/**
 * Runs a statement that changes nothing. Outside of a transaction, any other counts as a commit: if its connection is lost,
 * the client is told that the request may have taken effect.
 */
export async function readRows<Row>(
  { dataSource, queryRunner }: EntityManager,
  query: string,
  parameters?: unknown[],
): Promise<Row[]> {
  const used = queryRunner ?? dataSource.createQueryRunner('slave');
  try {
    return await dataSource.query<Row[]>(query, parameters, used);
  } finally {
    if (queryRunner === undefined) await used.release();
  }
}

/**
 * A TypeORM DataSource with translated errors, limits of time, isolated transactions, and migrations by several processes
 * at once. What differs between the databases is in `sqlite.ts` and `postgres.ts`.
 */
export abstract class ServiceDataSource extends DataSource {
  /** Whether the timeouts of requests apply (see deadline.ts). */
  servesRequests = false;
  abstract readonly dialect: Dialect;
  private readonly errorListeners: ((error: unknown) => void)[] = [];

  /**
   * Returns the revision of a table at a moment after the call: while it stays the same, so do the rows. Concurrent calls
   * share one check.
   *
   * @throws {DatabaseUnavailableError}
   */
  abstract readRevision(table: string): Promise<number>;

  /**
   * Runs work whose statements see the database at one moment, however long it takes, and which keeps no others waiting.
   *
   * @throws {DatabaseUnavailableError}
   */
  abstract readSnapshot<Result>(work: (read: ReadRows) => Promise<Result>): Promise<Result>;

  /**
   * Checks that the database can be written, and has the tables of the platform.
   *
   * @param isThorough whether something is written
   * @throws {DatabaseUnavailableError}
   */
  abstract checkWritable(isThorough?: boolean): Promise<void>;

  /** @throws {DatabaseUnavailableError} if a table of the platform, or a column, does not exist */
  protected async requirePlatformTables(): Promise<void> {
    for (const { tableName, columns } of this.entityMetadatas) {
      if (!PLATFORM_TABLE.test(tableName)) continue;
      const names = columns.map(({ databaseName }) => `"${databaseName}"`).join(', ');
      await readRows(this.manager, `SELECT ${names} FROM "${tableName}" WHERE FALSE`);
    }
  }

  /** Adds what only a database of this kind can measure. */
  abstract addMetrics(metrics: DatabaseMetrics): void;

  /** @param mode `slave` for statements that change nothing, as TypeORM creates the runners of its SELECTs */
  abstract override createQueryRunner(mode?: ReplicationMode): ServiceQueryRunner;

  /** Runs migrations in one transaction, and returns them. If several processes do so at once, the others wait for one. */
  protected abstract changeSchema(
    run: (manager: EntityManager) => Promise<Migration[]>,
  ): Promise<Migration[]>;

  /** @throws {StartupError} if the database has a setting with which the service would not keep its promises */
  async requireSettings(): Promise<void> {}

  /**
   * @returns a sentence about where PostgreSQL has not found the table `migrations`, or an empty text
   * @throws {DatabaseUnavailableError} if the role lacks the privilege to read which migrations were applied
   */
  protected async checkMigrationsTable(): Promise<string> {
    return '';
  }

  /** Registers a listener for every error of the driver, translated. */
  onError(listener: (error: unknown) => void): void {
    this.errorListeners.push(listener);
  }

  /** @throws {DatabaseUnavailableError} if the database cannot be reached */
  override async initialize(): Promise<this> {
    const { subscribers } = this;
    try {
      return await super.initialize();
    } catch (error) {
      throw this.translateError(error);
    } finally {
      // TypeORM forgets the subscribers that constructors of providers have added.
      Object.assign(this, { subscribers });
    }
  }

  /** @throws {Error} also if the database was never open, which TypeORM reports as an entity without metadata */
  override getMetadata(...target: Parameters<DataSource['getMetadata']>) {
    const message =
      'The database is not open yet: query it in requests, in jobs, or in onApplicationBootstrap, which fails while the database is down.';
    if (this.entityMetadatas.length === 0) throw new Error(message);
    return super.getMetadata(...target);
  }

  /** Connects to the database, runs an action, and closes the connection. */
  async whileConnected(action: (dataSource: this) => Promise<void>): Promise<void> {
    await this.initialize();
    try {
      await action(this);
    } finally {
      await this.destroy();
    }
  }

  /**
   * Runs the pending migrations, and returns them.
   *
   * @throws {StartupError} with the name of a migration that the database rejects
   */
  async migrate(): Promise<Migration[]> {
    await this.checkMigrationsTable();
    return this.changeSchema(({ queryRunner }) =>
      new NamingExecutor(this, queryRunner).executePendingMigrations(),
    );
  }

  /**
   * Reverts the newest migration, and returns it if there is one.
   *
   * @throws {StartupError} with its name, if the database rejects that
   */
  async revertMigration(): Promise<Migration | undefined> {
    const [reverted] = await this.changeSchema(async ({ queryRunner }) => {
      const executor = new NamingExecutor(this, queryRunner);
      const executed = await executor.getExecutedMigrations();
      await executor.undoLastMigration();
      return executed.slice(0, 1);
    });
    return reverted;
  }

  /** @throws {SchemaOutdatedError} if a migration is pending */
  async requireCurrentSchema(): Promise<void> {
    const where = await this.checkMigrationsTable();
    const pending = await new MigrationExecutor(this).getPendingMigrations();
    if (pending.length > 0)
      throw new SchemaOutdatedError(
        `The database schema is outdated. Migrate it with: npm run migration:run (in production: node dist/cli/migrations.js run).${where}`,
      );
  }

  /**
   * Reports an error of the driver and returns the error to throw instead.
   *
   * @param options.isConnecting whether any error, such as an expired certificate, makes the database unavailable
   * @param options.isCommit whether the statement has an effect that cannot be rolled back
   */
  translateError(error: unknown, { isConnecting = false, isCommit = false } = {}): unknown {
    // The listeners were called when the connection failed.
    if (error instanceof DatabaseUnavailableError) return error;
    return this.report(
      isConnecting ? new DatabaseUnavailableError(error) : translateDriverError(error, isCommit),
    );
  }

  /** Reports an error to the listeners, and returns it. */
  report<Reported>(error: Reported): Reported {
    for (const listener of this.errorListeners) listener(error);
    return error;
  }
}
