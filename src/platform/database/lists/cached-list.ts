import { setImmediate as turn } from 'node:timers/promises';
import type { ObjectLiteral, Repository } from 'typeorm';
import { MAX_ID } from '../../config/max-id.js';
import { singleFlight } from './single-flight.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { Deadline, withDeadline } from '../connection/deadline.js';
import {
  type Criteria,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../statements/row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** How many rows are read with one statement and converted in one turn of the event loop, in about 8 ms. */
const CHUNK_SIZE = 2_000;

/** The number of lists and first pages that are cached, by filters and limit. */
const MAX_CACHED_QUERIES = 50;

/** The name of the number of rows, which no property has. */
const TOTAL = '#';

/** How often rows are read that change meanwhile. */
const MAX_READS = 3;

/** The rows of a list, a part at a time. */
export type RowChunks<Entity> = Iterable<Entity[]> | AsyncIterable<Entity[]>;

/** Which page of a list to read: the first, the one after an id, at an offset, or with a number. */
export interface PageRequest {
  readonly limit: number;
  /** The id after which the page starts. */
  readonly after?: number | string | undefined;
  /** The number of rows before the page. */
  readonly offset?: number | undefined;
  /** The number of the page. */
  readonly page?: number | undefined;
  /** The number of the first page, by default 1. */
  readonly firstPage?: 0 | 1;
  /** The query parameter that selects the next page, if it is not `after`, `offset` or `page`; false if there is none. */
  readonly next?: string | false;
}

/** What belongs to the rows of a page. */
export interface Paging extends Partial<Omit<PageRequest, 'next'>> {
  /** The query parameter that selects the next page, if there is one, with its value. */
  readonly next?: Readonly<Record<string, number | string>> | undefined;
  /** Whether there are rows after the page. */
  readonly hasMore?: boolean;
  /** The number of rows in all pages, if they are counted. */
  readonly total?: number | undefined;
}

/**
 * The rows of a table in id order, all or a page, optionally filtered. What is built from them, such as a response,
 * includes every change that was acknowledged before the call, by this process or another. Whole lists and first pages
 * are cached. A filter needs an index; on PostgreSQL the migration of the table must call `addRevisionTrigger`.
 *
 * The rows and the total of a page are of one moment. Pages that follow an id contain every row that exists throughout
 * exactly once; with offsets or numbers, a row may be repeated or missing if others are created or deleted in between.
 *
 * A long list is read in chunks, and again, at most twice, if the table changes meanwhile. That costs several
 * milliseconds of CPU time per 1,000 rows: use pages for a list that may have more than 10,000.
 */
export class CachedList<Entity extends ObjectLiteral, Value> {
  /** Lists and first pages, by filters and limit; the least recently used first. */
  private readonly queries = new Map<string, CachedQuery<Value>>();

  /**
   * @param build computes the value from the rows of a page or, without paging, from all
   * @param counts whether pages have a total
   */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly build: (rows: RowChunks<Entity>, paging: Paging) => Promise<Value>,
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
    private readonly counts = false,
  ) {}

  /** @throws {DatabaseUnavailableError} */
  get(filters: Criteria<Entity> = {}): Promise<Value> {
    return this.getCached(JSON.stringify(filters), (reading) =>
      this.build(this.readChunks(filters, reading), {}),
    );
  }

  /** @throws {DatabaseUnavailableError} */
  getPage(request: PageRequest, filters: Criteria<Entity> = {}): Promise<Value> {
    const { limit, after, offset, page, firstPage = 1, next } = request;
    if (after !== undefined || (offset ?? 0) > 0 || (page ?? firstPage) > firstPage)
      return withDeadline(this.loadPage(request, filters));
    return this.getCached(JSON.stringify([limit, offset, page, next, filters]), () =>
      this.loadPage(request, filters),
    );
  }

  private getCached(key: string, load: Load<Value>): Promise<Value> {
    const query =
      this.queries.get(key) ??
      new CachedQuery(this.repository.metadata.tableName, load, this.revisions, this.metrics);
    // A Map keeps the order of insertion.
    this.queries.delete(key);
    this.queries.set(key, query);
    if (this.queries.size > MAX_CACHED_QUERIES)
      this.queries.delete(this.queries.keys().next().value!);
    return query.get();
  }

  private async loadPage(
    { limit, after, offset, page, firstPage = 1, next: name }: PageRequest,
    filters: Criteria<Entity>,
  ): Promise<Value> {
    const start = Math.min(offset ?? ((page ?? firstPage) - firstPage) * limit, MAX_ID);
    // One more row than the page has shows whether there is another page.
    const read = await this.query(filters, limit + 1, after, start, this.counts);
    const total = this.counts ? Number(read[0]![TOTAL]) : undefined;
    const found = read.filter(({ id }) => id !== null);
    const rows = toEntities(this.repository, found.slice(0, limit));
    const hasMore = found.length > limit;
    let next: Paging['next'];
    if (hasMore && name !== false) {
      if (page !== undefined) next = { [name ?? 'page']: page + 1 };
      else if (offset !== undefined) next = { [name ?? 'offset']: offset + limit };
      else next = { [name ?? 'after']: rows.at(-1)!['id'] as number | string };
    }
    return this.build([rows], { limit, after, offset, page, next, hasMore, total });
  }

  /** Reads all rows by the primary key, and lets other requests run after each chunk. */
  private async *readChunks(filters: Criteria<Entity>, reading: Reading): AsyncGenerator<Entity[]> {
    let rows: Entity[] = [];
    do {
      if (rows.length > 0) await turn();
      const after = rows.at(-1)?.['id'] as number | string | undefined;
      rows = toEntities(this.repository, await this.query(filters, CHUNK_SIZE, after));
      reading.statements++;
      yield rows;
    } while (rows.length === CHUNK_SIZE);
  }

  private query(
    filters: Criteria<Entity>,
    limit: number,
    after?: number | string,
    offset = 0,
    counts = false,
  ): Promise<Record<string, unknown>[]> {
    const { manager, metadata } = this.repository;
    const table = `"${metadata.tableName}"`;
    const parameters = new StatementParameters(manager.dataSource);
    const getConditions = (): string[] => toConditions(this.repository, filters, parameters);
    const count =
      counts && `SELECT count(*) AS "${TOTAL}" FROM ${table}${toWhere(getConditions())}`;
    const conditions = getConditions();
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    const rows = `SELECT ${selectColumns(metadata)} FROM ${table}${toWhere(conditions)} ORDER BY "id" LIMIT ${limit}${offset > 0 ? ` OFFSET ${offset}` : ''}`;
    return this.repository.query(
      count === false
        ? rows
        : `SELECT * FROM (${count}) AS "all" LEFT JOIN (${rows}) AS "page" ON TRUE ORDER BY "id"`,
      parameters.values,
    );
  }
}

const toWhere = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;

/** How many statements have read the rows of a list. */
interface Reading {
  statements: number;
}

/** Computes a value from rows. */
type Load<Value> = (reading: Reading) => Promise<Value>;

/** What is built from one combination of filters and limit, until the table changes. */
class CachedQuery<Value> {
  private cached: { readonly revision: number; readonly value: Value } | undefined;
  private pendingRevision: number | undefined;
  private readonly refresh = singleFlight(() => this.rebuild());

  constructor(
    private readonly table: string,
    private readonly load: Load<Value>,
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
  ) {}

  async get(): Promise<Value> {
    const deadline = new Deadline();
    const revision = await this.revisions.read(this.table, deadline);
    if (this.cached?.revision === revision) return this.cached.value;
    this.pendingRevision = revision;
    return withDeadline(this.refresh(), deadline);
  }

  private async rebuild(): Promise<Value> {
    // Read before the rows: in the other order, a change between the two would be missed.
    let revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.value;
    const stopTimer = this.metrics.listRebuildDurations?.startTimer({
      db_collection_name: this.table,
    });
    for (let reads = 1; ; reads++) {
      const reading = { statements: 0 };
      const value = await this.load(reading);
      // The rows of one statement are of one moment.
      const current = reading.statements > 1 ? await this.revisions.read(this.table) : revision;
      if (current === revision) this.cached = { revision, value };
      if (current === revision || reads === MAX_READS) {
        stopTimer?.();
        return value;
      }
      revision = current;
    }
  }
}
