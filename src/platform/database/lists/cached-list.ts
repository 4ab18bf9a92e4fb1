import { setImmediate as turn } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { ObjectLiteral, Repository } from 'typeorm';
import { CachedQuery } from './cached-query.js';
import { isPostgres } from '../connection/is-postgres.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { withDeadline } from '../connection/deadline.js';
import type { PetstoreDataSource } from '../connection/petstore-data-source.js';
import {
  type Criteria,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../statements/row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** How many rows of a long list are read and converted in one turn of the event loop, in about 2 ms. */
const CHUNK_SIZE = 500;

/** How many rows are read with one statement, in about 5 ms. */
const MAX_STATEMENT_ROWS = 2_000;

/** The number of lists and first pages, one per combination of filters and limit, that are cached. */
const MAX_CACHED_QUERIES = 50;

/** The rows of a list, a part at a time. */
export type RowChunks<Entity> = Iterable<Entity[]> | AsyncIterable<Entity[]>;

/** Which page of a list to read. */
export interface PageRequest {
  /** The maximum number of rows. */
  readonly limit: number;
  /** The id after which the page starts; by default the page is the first one. */
  readonly after?: number | undefined;
}

/**
 * The rows of a table in id order, all or a page, optionally filtered. What is built from them, such as a
 * response, is cached until the table changes (see {@link CachedQuery}), for the most recently used
 * combinations of filters and limit. The other pages are read from the database, by the primary key. A filter
 * needs an index that starts with its columns.
 *
 * The rows are those of one moment. All rows are read in chunks, so that a long list does not block the event
 * loop; but each change costs several milliseconds of CPU time per 1,000 rows. Use pages for a list that may
 * have more than 10,000.
 */
export class CachedList<Entity extends ObjectLiteral, Value> {
  /** The list without filters, which the most frequent requests get without a look-up. */
  private readonly wholeList: CachedQuery<Entity, Value>;
  /** Filtered lists and first pages, by filters and limit; the least recently used first. */
  private readonly queries = new Map<string, CachedQuery<Entity, Value>>();

  /**
   * @param build computes the value from the rows; `next` is the `after` of the next page, and undefined if
   *   there is none
   */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly build: (rows: RowChunks<Entity>, next?: number) => Promise<Value>,
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
  ) {
    this.wholeList = this.createQuery(() => this.build(this.readAll({})));
  }

  /**
   * Returns all rows.
   *
   * @param filters the values that the rows must have, by property; undefined is no filter
   * @throws {DatabaseUnavailableError}
   */
  get(filters?: Criteria<Entity>): Value | Promise<Value> {
    if (filters === undefined) return this.wholeList.get();
    return this.getCached(JSON.stringify(filters), () => this.build(this.readAll(filters)));
  }

  /**
   * Returns a page.
   *
   * @param filters the values that the rows must have, by property; undefined is no filter
   * @throws {DatabaseUnavailableError}
   */
  getPage(page: PageRequest, filters: Criteria<Entity> = {}): Value | Promise<Value> {
    if (page.after !== undefined) return withDeadline(this.loadPage(page, filters));
    const key = JSON.stringify([page.limit, filters]);
    return this.getCached(key, () => this.loadPage(page, filters));
  }

  private getCached(key: string, load: () => Promise<Value>): Value | Promise<Value> {
    const query = this.queries.get(key) ?? this.createQuery(load);
    // A Map keeps the order of insertion.
    this.queries.delete(key);
    this.queries.set(key, query);
    if (this.queries.size > MAX_CACHED_QUERIES)
      this.queries.delete(this.queries.keys().next().value!);
    return query.get();
  }

  private createQuery(load: () => Promise<Value>): CachedQuery<Entity, Value> {
    return new CachedQuery(this.repository, load, this.revisions, this.metrics);
  }

  private async loadPage({ limit, after }: PageRequest, filters: Criteria<Entity>): Promise<Value> {
    // One more row than the page has shows whether there is another page.
    const rows = toEntities(this.repository, await this.query(filters, limit + 1, after));
    if (rows.length <= limit) return this.build([rows]);
    rows.pop();
    return this.build([rows], Number(rows.at(-1)!['id']));
  }

  private async *readAll(filters: Criteria<Entity>): AsyncGenerator<Entity[]> {
    const rows = await this.query(filters, MAX_STATEMENT_ROWS + 1);
    if (rows.length > MAX_STATEMENT_ROWS) {
      const isOnPostgres = isPostgres(this.repository.manager.dataSource);
      yield* isOnPostgres ? this.readWithCursor(filters) : this.readWithOwnConnection(filters);
      return;
    }
    for (let start = 0; start < rows.length; start += CHUNK_SIZE) {
      if (start > 0) await turn();
      yield toEntities(this.repository, rows.slice(start, start + CHUNK_SIZE));
    }
  }

  /** Reads a long list on PostgreSQL: without a cursor, 100,000 rows blocked the event loop for up to 98 ms at a time. */
  private async *readWithCursor(filters: Criteria<Entity>): AsyncGenerator<Entity[]> {
    const { sql, values } = this.select(filters);
    const runner = this.repository.manager.dataSource.createQueryRunner();
    try {
      // It locks no row, so TypeORM's transactions, which are limited in time, are not needed.
      await runner.query('START TRANSACTION READ ONLY');
      await runner.query(`DECLARE list NO SCROLL CURSOR FOR ${sql}`, values);
      let rows: Record<string, unknown>[];
      do {
        rows = (await runner.query(`FETCH ${CHUNK_SIZE} FROM list`)) as Record<string, unknown>[];
        yield toEntities(this.repository, rows);
      } while (rows.length === CHUNK_SIZE);
    } finally {
      // If it fails, the connection is lost, and the first error says so.
      await runner.query('ROLLBACK').catch(() => undefined);
      await runner.release();
    }
  }

  /** Reads a long list on SQLite, where it would block the only connection, or contain the rows of several moments. */
  private async *readWithOwnConnection(filters: Criteria<Entity>): AsyncGenerator<Entity[]> {
    const { options, translateError } = this.repository.manager.dataSource as PetstoreDataSource;
    try {
      const connection = new Database(options.database as string, { readonly: true });
      try {
        const { sql, values } = this.select(filters);
        const statement = connection.prepare<unknown[], Record<string, unknown>>(sql);
        let chunk: Record<string, unknown>[] = [];
        for (const row of statement.iterate(...values)) {
          if (chunk.push(row) < CHUNK_SIZE) continue;
          yield toEntities(this.repository, chunk);
          chunk = [];
          await turn();
        }
        yield toEntities(this.repository, chunk);
      } finally {
        connection.close();
      }
    } catch (error) {
      throw translateError(error);
    }
  }

  private query(
    filters: Criteria<Entity>,
    limit?: number,
    after?: number,
  ): Promise<Record<string, unknown>[]> {
    const { sql, values } = this.select(filters, limit, after);
    return this.repository.query(sql, values);
  }

  private select(
    filters: Criteria<Entity>,
    limit?: number,
    after?: number,
  ): { readonly sql: string; readonly values: unknown[] } {
    const { metadata } = this.repository;
    const parameters = new StatementParameters(this.repository.manager.dataSource);
    const conditions = toConditions(this.repository, filters, parameters);
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
    const end = limit === undefined ? '' : ` LIMIT ${limit}`;
    return {
      sql: `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}"${where} ORDER BY "id"${end}`,
      values: parameters.values,
    };
  }
}
