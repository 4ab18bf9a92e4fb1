/** What is special about PostgreSQL: the options, the pool, conflicts, pipelines, revisions in a table. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Pool } from 'pg';
import { EntityManager, type Migration, QueryFailedError, type QueryRunner } from 'typeorm';
import type { PostgresDataSourceOptions } from 'typeorm/driver/postgres/PostgresDataSourceOptions.js';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { PostgresQueryRunner } from 'typeorm/driver/postgres/PostgresQueryRunner.js';
import type { ReplicationMode } from 'typeorm/driver/types/ReplicationMode.js';
import type { IsolationLevel } from 'typeorm/driver/types/IsolationLevel.js';
import { splitHosts } from '../../config/uri.js';
import { StartupError } from '../../errors/startup-error.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import type { Dialect } from './dialect.js';
import {
  DatabaseUnavailableError,
  getDriverErrorCode,
  READ_ONLY_TRANSACTION,
} from './driver-errors.js';
import { createPrimaryClient } from './primary-client.js';
import {
  type ReadRows,
  readRows,
  SchemaOutdatedError,
  ServiceDataSource,
  type ServiceQueryRunner,
} from './service-data-source.js';
import { singleFlight } from './single-flight.js';
import {
  CANCEL_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  createTransactionTimeoutError,
  repeatOnConflict,
  TRANSACTION_TIMEOUT_MS,
  withDeadline,
} from './deadline.js';

const DIALECT: Dialect = {
  generatedIdType: 'bigint',
  binaryCollation: 'C',
  bigintCast: '::bigint',
  // A server in recovery cannot assign the id of a transaction (25006).
  isPrimary:
    '(SELECT CASE WHEN pg_is_in_recovery() THEN pg_current_xact_id() IS NOT NULL ELSE TRUE END)',
  // Without synchronous standbys, nothing is written.
  awaitsStandbys: `(SELECT CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, '', '') END)`,
  rowLock: ' FOR UPDATE',
  clock: 'CAST(extract(epoch FROM now()) * 1000 AS bigint)',
  // If a trigger drops a row, this divides by zero, which undoes the statement.
  toCompleteInsert: (insert, count) =>
    count === 1
      ? insert
      : `WITH "rows" AS (${insert}) SELECT "id", 1 / (count(*) OVER () / ${count}) FROM "rows"`,
  // See `START_CHECKED`.
  inTransaction: `1 / (current_setting('transaction_isolation') = 'read uncommitted')::integer`,
  checkImmediately: 'SET CONSTRAINTS ALL IMMEDIATE',
  hasRevisionTable: true,
};

/** Begins a transaction that a statement with `inTransaction` may follow at once: PostgreSQL takes this level for READ COMMITTED. */
const START_CHECKED = 'START TRANSACTION ISOLATION LEVEL READ UNCOMMITTED';

/** How long a process waits for another one that migrates the database, in milliseconds; the code of the error after that. */
const MIGRATION_LOCK_TIMEOUT_MS = 5_000;
const LOCK_NOT_AVAILABLE = '55P03';

type PrimaryClient = ReturnType<typeof createPrimaryClient>;

/** A client with what identifies its session to the server; pg does not declare it. */
type PgClient = InstanceType<PrimaryClient> & {
  readonly processID: number;
  readonly secretKey: number;
  readonly connection: { readonly stream: Socket };
};

const ignore = (): void => undefined;

/** Returns TypeORM's options for a server, or for several of which one is the primary. */
export function postgresOptions(
  databaseUrl: string,
  applicationName: string,
  poolSize?: number,
): PostgresDataSourceOptions {
  const urls = splitHosts(databaseUrl);
  // The client replaces this URL by that of the primary.
  const server = { url: urls[0]! };
  return {
    type: 'postgres',
    ...server,
    applicationName,
    // TypeORM's name for a second pool, here of the same server: see `PostgresDataSource.initialize`.
    ...(poolSize && { poolSize, replication: { master: server, slaves: [server] } }),
    connectTimeoutMS: CONNECT_TIMEOUT_MS,
    // The pool replaces an idle connection that breaks; there is nothing to report.
    poolErrorHandler: ignore,
    // PgBouncer rejects statement_timeout: it would be a property of the session.
    extra: {
      keepAlive: true,
      // A transaction can send several statements in one round trip.
      pipeline: true,
      // Reconnects every 5 minutes, to follow DNS after a failover.
      maxLifetimeSeconds: 300,
      Client: createPrimaryClient(urls, DIALECT.isPrimary),
    },
  };
}

/** The part of the connections that is for statements that change nothing. */
const READ_SHARE = 0.3;

/**
 * A PostgreSQL database. A service has two pools of connections: statements that change nothing, such as those for
 * revisions and keys, which all requests need, do not wait behind transactions, which may wait for locks.
 */
export class PostgresDataSource extends ServiceDataSource {
  declare readonly options: PostgresDataSourceOptions;
  declare driver: PostgresDriver;
  readonly dialect = DIALECT;
  private readonly readRevisions = singleFlight(async () => {
    const read = (isPrimary: string) =>
      readRows<{ name: string; value: string }>(
        this.manager,
        `SELECT "name", "value" FROM "revisions" WHERE ${isPrimary}`,
      );
    // Every list asks for the revisions: this takes 40 µs less than `isPrimary`, but returns no rows on a standby.
    const found = await read('NOT pg_is_in_recovery()');
    const rows = found.length > 0 ? found : await read(DIALECT.isPrimary);
    return new Map(rows.map(({ name, value }) => [name, Number(value)]));
  });

  /** Connects to each server in turn until one is the primary. */
  override async initialize(): Promise<this> {
    const { servers } = (this.options.extra as { Client: PrimaryClient }).Client;
    for (let attempts = 1; ; attempts++) {
      try {
        await super.initialize();
        break;
      } catch (error) {
        if (attempts === servers) throw error;
      }
    }
    const { poolSize = 0 } = this.options;
    const [changes, reads] = this.pools;
    const readers = Math.max(1, Math.floor(poolSize * READ_SHARE));
    if (reads !== undefined) {
      reads.options.max = readers;
      changes!.options.max = poolSize - readers;
    }
    return this;
  }

  /** The pool for statements that may change something, and that for the others; before the connection, none. */
  private get pools(): Pool[] {
    const { master, slaves } = this.driver as { master?: Pool; slaves: Pool[] };
    return master === undefined ? [] : [master, ...slaves];
  }

  override createEntityManager(queryRunner?: QueryRunner): EntityManager {
    return new PgEntityManager(this, queryRunner);
  }

  async readRevision(table: string): Promise<number> {
    const revision = (await withDeadline(this.readRevisions())).get(table);
    if (revision !== undefined) return revision;
    const repair = `INSERT INTO "revisions" VALUES ('${table}', 1)`;
    throw new Error(
      `The table ${table} has no revision: call addRevisionTrigger in its migration; if the row was deleted: ${repair}`,
    );
  }

  async readSnapshot<Result>(work: (read: ReadRows) => Promise<Result>): Promise<Result> {
    const runner = new PgQueryRunner(this, true, 'master');
    try {
      await runner.startTransaction('REPEATABLE READ');
      return await work((query, parameters) => {
        // A long list takes many statements.
        runner.restartTimer();
        return this.query(query, parameters, runner);
      });
    } finally {
      // The transaction only reads. The rollback of a lost connection fails.
      await runner.rollbackTransaction().catch(ignore);
      await runner.release();
    }
  }

  /**
   * A read-only database rejects an UPDATE, even of no row.
   *
   * @param isThorough whether something is committed, which waits for the synchronous standbys
   */
  async checkWritable(isThorough = false): Promise<void> {
    await readRows(this.manager, 'UPDATE "revisions" SET "name" = "name" WHERE FALSE');
    await this.requirePlatformTables();
    if (isThorough) await this.query(`SELECT pg_logical_emit_message(true, '', '')`);
  }

  /**
   * Requires READ COMMITTED: with another level, transactions that wait for the revision of a table, one after the other,
   * would conflict. Requires warnings, because a commit that no synchronous standby has confirmed is one.
   */
  override async requireSettings(): Promise<void> {
    const [{ isolation, messages }]: [{ isolation: string; messages: string }] = await this.query(
      `SELECT current_setting('default_transaction_isolation') AS "isolation", current_setting('client_min_messages') AS "messages"`,
    );
    const of = 'of the database and the role to';
    if (isolation !== 'read committed')
      throw new StartupError(
        `The isolation level of PostgreSQL is ${isolation}: set default_transaction_isolation ${of} 'read committed'.`,
      );
    if (messages === 'error')
      throw new StartupError(
        `PostgreSQL sends no warnings: set client_min_messages ${of} 'warning'.`,
      );
  }

  /** TypeORM takes a table that the role may not use for a missing one, because information_schema leaves it out. */
  protected override async checkMigrationsTable(): Promise<string> {
    const path = `current_setting('search_path')`;
    // The name of a table in a schema without USAGE is not resolved.
    const [{ table, searched }]: [{ table: string | null; searched: string }] = await this.query(
      `SELECT coalesce(to_regclass('"migrations"')::text, (SELECT min(format('%I."migrations"', "nspname")) FROM pg_namespace
        WHERE NOT has_schema_privilege("oid", 'USAGE')
        AND "nspname" = ANY(string_to_array(replace(replace(${path}, '$user', current_user), '"', ''), ', ')))) AS "table",
        ${path} AS "searched"`,
    );
    if (table === null) return ` The search_path ${searched} has no table "migrations".`;
    await this.query(`SELECT FROM ${table} WHERE FALSE`);
    return '';
  }

  addMetrics(metrics: DatabaseMetrics): void {
    metrics.observePools(() => this.pools);
    // An administrator alone could ask for the age of the oldest transaction: the roles of others hide theirs.
    const sql = `SELECT "n_dead_tup" AS "count" FROM "pg_stat_user_tables" WHERE "relid" = to_regclass('revisions')`;
    metrics.observeDeadRevisions(async () => {
      const [row] = await readRows<{ count: string }>(this.manager, sql);
      return Number(row?.count);
    });
  }

  createQueryRunner(mode: ReplicationMode = 'master'): ServiceQueryRunner {
    return new PgQueryRunner(this, mode === 'slave');
  }

  protected changeSchema(
    run: (manager: EntityManager) => Promise<Migration[]>,
  ): Promise<Migration[]> {
    // Only READ COMMITTED sees what another process has committed while this one waited.
    return this.transaction('READ COMMITTED', async (manager) => {
      // A statement_timeout that is set for the role is meant for requests, not for migrations.
      await manager.query(
        `SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = ${MIGRATION_LOCK_TIMEOUT_MS}`,
      );
      // A lock of the session would be lost behind PgBouncer.
      await manager.query('SELECT pg_advisory_xact_lock(7738378831)').catch((error: unknown) => {
        if (getDriverErrorCode(error) !== LOCK_NOT_AVAILABLE) throw error;
        throw new SchemaOutdatedError('Another process is migrating the database.');
      });
      await manager.query('SET LOCAL lock_timeout TO DEFAULT');
      return run(manager);
    });
  }
}

/** Runs transactions, and repeats those that conflict with another. */
class PgEntityManager extends EntityManager {
  override transaction<T>(...parameters: any[]): Promise<T> {
    const run = () => super.transaction(...(parameters as [IsolationLevel, () => Promise<T>]));
    // A transaction within another is a savepoint, and only the whole can be repeated.
    return this.queryRunner?.isTransactionActive ? run() : repeatOnConflict(run);
  }
}

/**
 * Runs statements on one connection of the pool. If it is not released in time, what it runs is cancelled, and the
 * connection closed, which rolls a transaction back.
 */
export class PgQueryRunner extends PostgresQueryRunner {
  declare dataSource: PostgresDataSource;
  declare protected databaseConnection: PgClient | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** Set once the time is up; resolves when the connection is closed. */
  private closing: Promise<void> | undefined;
  /** Whether a statement of the transaction has failed: PostgreSQL rolls back instead of a COMMIT, without an error. */
  private hasFailed = false;
  /** The START of the transaction, for which its statements wait. */
  private starting: Promise<unknown> | undefined;
  /** The statements that are sent with the next one, in one round trip. */
  private held: [query: string, parameters?: unknown[]][] = [];

  /**
   * @param reads whether the statements outside of transactions change nothing
   * @param mode the pool of the connection
   */
  constructor(
    dataSource: PostgresDataSource,
    private readonly reads: boolean,
    mode: ReplicationMode = reads ? 'slave' : 'master',
  ) {
    super(dataSource.driver, mode);
    Object.assign(this, { manager: dataSource.createEntityManager(this) });
  }

  override async connect(): Promise<PgClient> {
    if (this.databaseConnection !== undefined) return this.databaseConnection;
    const client: PgClient = await super.connect().catch((error: unknown) => {
      throw this.dataSource.translateError(error, { isConnecting: true });
    });
    // TypeORM would release the runner when its connection is lost; the next statement reports that.
    client.removeAllListeners('error').on('error', ignore);
    if (this.dataSource.servesRequests)
      this.timer ??= setTimeout(() => {
        this.closing = cancelQuery(client).then(() => close(client));
      }, TRANSACTION_TIMEOUT_MS);
    return client;
  }

  override query(query: string, parameters?: any[], useStructuredResult?: boolean): Promise<any> {
    // If TypeORM had to wait for a SAVEPOINT that fails, it would roll back the outer transaction.
    if (/^(START TRANSACTION|SAVEPOINT)/.test(query)) return this.queryWithNext(query);
    const run = async (): Promise<any> => {
      try {
        if (this.closing !== undefined)
          throw this.dataSource.report(createTransactionTimeoutError());
        if (query === 'COMMIT' && this.hasFailed)
          throw new Error('A statement of the transaction has failed: it cannot be committed');
        const result: unknown = await this.send(query, parameters, useStructuredResult);
        if (this.databaseConnection?.isUnconfirmed)
          throw this.dataSource.report(createUnconfirmedError());
        if (query.startsWith('ROLLBACK')) this.hasFailed = false;
        // TypeORM uses the name again: if its next SAVEPOINT fails, this one must not exist.
        if (query.startsWith('ROLLBACK TO'))
          await this.queryWithNext(query.replace('ROLLBACK TO', 'RELEASE'));
        return result;
      } catch (error) {
        this.hasFailed = this.isTransactionActive;
        const isCommit = this.isTransactionActive ? query === 'COMMIT' : !this.reads;
        const translated = this.dataSource.translateError(error, { isCommit });
        const isReadOnly = getDriverErrorCode(error) === READ_ONLY_TRANSACTION;
        // The connection would stay read-only, at a standby, or unconfirmed.
        if (
          (isReadOnly && translated instanceof DatabaseUnavailableError) ||
          this.databaseConnection?.isUnconfirmed
        )
          void this.databaseConnection?.end();
        throw translated;
      }
    };
    // A statement outside of a transaction is a transaction of its own.
    return this.isTransactionActive ? run() : repeatOnConflict(run);
  }

  /**
   * Sends a statement together with the next one, such as the COMMIT, which costs no round trip of its own. If it fails, the
   * next one rejects with its error.
   */
  async queryWithNext(query: string, parameters?: unknown[]): Promise<void> {
    if (query.startsWith('ROLLBACK')) this.hasFailed = false;
    this.held.push([query, parameters]);
  }

  /** Lets the next statement take as long as a transaction. */
  restartTimer(): void {
    this.timer?.refresh();
  }

  override async release(): Promise<void> {
    clearTimeout(this.timer);
    // The cancellation must not arrive at the next query of the connection.
    await this.closing;
    // If a ROLLBACK was cancelled, the connection is still in its transaction.
    const client = this.databaseConnection;
    if (client !== undefined && client.getTransactionStatus() !== 'I') await close(client);
    await super.release();
  }

  /** Sends a statement after those that were held, and waits for all. */
  private async send(query: string, parameters?: any[], isStructured?: boolean): Promise<any> {
    const held = this.held.splice(0);
    if (held[0]?.[0] === 'START TRANSACTION') {
      // If the START fails, such as because it is cancelled, a statement that was sent with it would be committed alone.
      if (query.includes(DIALECT.inTransaction)) held[0] = [START_CHECKED];
      else this.starting = super.query(held.shift()![0]);
    }
    // A START that has failed leaves nothing to roll back.
    if (query === 'ROLLBACK') this.starting = this.starting?.catch(ignore);
    await this.starting;
    if (held.length === 0) return super.query(query, parameters, isStructured);
    const client = await this.connect();
    // The held statements are written first, because TypeORM awaits something before it sends the last one.
    const sent = held.map(([text, values]) => {
      this.dataSource.logger.logQuery(text, values, this);
      return client.query(text, values).catch((error: Error) => {
        throw new QueryFailedError(text, values, error);
      });
    });
    const all: Promise<unknown>[] = [...sent, super.query(query, parameters, isStructured)];
    // A subscriber may delay the last one: none is sent after the end of the transaction.
    await Promise.allSettled(all);
    return (await Promise.all(all)).at(-1);
  }
}

/** Returns the error of a commit that is durable on this server, but perhaps not on its synchronous standbys. */
function createUnconfirmedError(): DatabaseUnavailableError {
  const message =
    'No synchronous standby has confirmed a commit: see pg_stat_replication, and SyncRep in pg_stat_activity';
  return new DatabaseUnavailableError(new Error(message), true);
}

/**
 * Asks the server, or PgBouncer, on another connection to cancel the query of a client: without it, the server would
 * continue the query, and hold its locks
 * (https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS).
 */
async function cancelQuery({ host, port, processID, secretKey }: PgClient): Promise<void> {
  // The length of the message, and the code of a cancellation instead of a new session.
  const numbers = [16, 80_877_102, processID, secretKey];
  const request = Buffer.alloc(16);
  numbers.forEach((number, index) => request.writeInt32BE(number, index * 4));
  const address = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  const socket = connect({ ...address, signal: AbortSignal.timeout(CANCEL_TIMEOUT_MS) });
  socket.resume().write(request);
  // The server closes the connection.
  await once(socket, 'close').catch(ignore);
}

/** Closes the connection of a client: pg itself would wait for the statements in its pipeline. */
async function close(client: PgClient): Promise<void> {
  const closed = client.end();
  client.connection.stream.destroy();
  await closed;
}
