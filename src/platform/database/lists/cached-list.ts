import { setImmediate as turn } from 'node:timers/promises';
import type { ObjectLiteral, Repository } from 'typeorm';
import { MAX_ID } from '../../config/max-id.js';
import { singleFlight } from './single-flight.js';
import { CachedJsonResponse } from '../../http/responses/cached-json-response.js';
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

/** The names of the number of rows and of their revision, which no property has. */
const TOTAL = '#total';
const REVISION = '#revision';

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
    return this.getCached(JSON.stringify(filters), (revisions) =>
      this.build(this.readChunks(filters, revisions), {}),
    );
  }

  /** @throws {DatabaseUnavailableError} */
  getPage(request: PageRequest, filters: Criteria<Entity> = {}): Promise<Value> {
    const { limit, after, offset, page, firstPage = 1, next } = request;
    if (after !== undefined || (offset ?? 0) > 0 || (page ?? firstPage) > firstPage)
      return withDeadline(this.loadPage(request, filters));
    return this.getCached(JSON.stringify([limit, offset, page, next, filters]), (revisions) =>
      this.loadPage(request, filters, revisions),
    );
  }

  private getCached(key: string, load: Load<Value>): Promise<Value> {
    const query =
      this.queries.get(key) ??
      new CachedQuery(this.repository.metadata.tableName, load, this.revisions, this.metrics);
    // A Map keeps the order of insertion.
    this.queries.delete(key);
    this.queries.set(key, query);
    if (this.queries.size > MAX_CACHED_QUERIES) {
      const [oldest, evicted] = this.queries.entries().next().value!;
      this.queries.delete(oldest);
      evicted.evict();
    }
    return query.get();
  }

  private async loadPage(
    { limit, after, offset, page, firstPage = 1, next: name }: PageRequest,
    filters: Criteria<Entity>,
    revisions?: Set<number>,
  ): Promise<Value> {
    const start = Math.min(offset ?? ((page ?? firstPage) - firstPage) * limit, MAX_ID);
    // One more row than the page has shows whether there is another page.
    const found = await this.query(filters, limit + 1, revisions, after, start, this.counts);
    const rows = found.rows.slice(0, limit);
    const hasMore = found.rows.length > limit;
    let next: Paging['next'];
    if (hasMore && name !== false) {
      if (page !== undefined) next = { [name ?? 'page']: page + 1 };
      else if (offset !== undefined) next = { [name ?? 'offset']: offset + limit };
      else next = { [name ?? 'after']: rows.at(-1)!['id'] as number | string };
    }
    return this.build([rows], { limit, after, offset, page, next, hasMore, total: found.total });
  }

  /** Reads all rows by the primary key, and lets other requests run after each chunk. */
  private async *readChunks(
    filters: Criteria<Entity>,
    revisions: Set<number>,
  ): AsyncGenerator<Entity[]> {
    let rows: Entity[] = [];
    do {
      if (rows.length > 0) await turn();
      const after = rows.at(-1)?.['id'] as number | string | undefined;
      ({ rows } = await this.query(filters, CHUNK_SIZE, revisions, after));
      // The revision of the first chunk was read before.
      if (after !== undefined && !this.revisions.areInTable)
        revisions.add(await this.revisions.read(this.repository.metadata.tableName));
      yield rows;
    } while (rows.length === CHUNK_SIZE);
  }

  /**
   * Reads rows with one statement.
   *
   * @param revisions gets the revision of the rows, if it is in a table
   * @param counts whether the rows of all pages are counted
   */
  private async query(
    filters: Criteria<Entity>,
    limit: number,
    revisions?: Set<number>,
    after?: number | string,
    offset = 0,
    counts = false,
  ): Promise<{ rows: Entity[]; total?: number }> {
    const { manager, metadata } = this.repository;
    const table = `"${metadata.tableName}"`;
    const parameters = new StatementParameters(manager.dataSource);
    const getConditions = (): string[] => toConditions(this.repository, filters, parameters);
    const facts = counts
      ? [`(SELECT count(*) FROM ${table}${toWhere(getConditions())}) AS "${TOTAL}"`]
      : [];
    const conditions = getConditions();
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    const columns = selectColumns(metadata);
    const page = `FROM ${table}${toWhere(conditions)} ORDER BY "id" LIMIT ${limit}${offset > 0 ? ` OFFSET ${offset}` : ''}`;
    const revision = `FROM "revisions" WHERE "name" = '${metadata.tableName}'`;
    const hasRevision = revisions !== undefined && this.revisions.areInTable;
    if (counts && hasRevision) facts.push(`(SELECT "value" ${revision}) AS "${REVISION}"`);
    let sql = `SELECT ${columns} ${page}`;
    if (counts)
      sql = `SELECT * FROM (SELECT ${facts.join(', ')}) AS "facts" LEFT JOIN (${sql}) AS "page" ON TRUE ORDER BY "id"`;
    // As many rows as a list has would take half of the time again if each had the value.
    else if (hasRevision) {
      const nulls = metadata.columns.map(({ propertyName }) => `NULL AS "${propertyName}"`);
      sql = `SELECT ${nulls.join(', ')}, "value" AS "${REVISION}" ${revision} UNION ALL (SELECT ${columns}, NULL ${page}) ORDER BY "id"`;
    }
    const read: Record<string, unknown>[] = await this.repository.query(sql, parameters.values);
    const { [TOTAL]: total, [REVISION]: value, id } = read.at(-1) ?? {};
    // Not a row of the table.
    if (id === null) read.pop();
    if (hasRevision) {
      revisions.add(Number(value));
      for (const row of read) row[REVISION] = undefined;
    }
    return { rows: toEntities(this.repository, read), ...(counts && { total: Number(total) }) };
  }
}

const toWhere = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;

/** Computes a value from rows, and collects their revisions. */
type Load<Value> = (revisions: Set<number>) => Promise<Value>;

/** What is built from one combination of filters and limit, until the table changes. */
class CachedQuery<Value> {
  private cached: { readonly revision: number; readonly value: Value } | undefined;
  private pendingRevision: number | undefined;
  private isEvicted = false;
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

  /** Tells a response that it is not cached any more, and later ones that they are not. */
  evict(): void {
    this.isEvicted = true;
    this.mark(false);
  }

  private mark(isCached: boolean): void {
    const value = this.cached?.value;
    if (value instanceof CachedJsonResponse) value.isCached = isCached && !this.isEvicted;
  }

  private async rebuild(): Promise<Value> {
    let revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.value;
    const stopTimer = this.metrics.listRebuildDurations?.startTimer({
      db_collection_name: this.table,
    });
    for (let reads = 1; ; reads++) {
      // Read before the rows: in the other order, a change between the two would be missed.
      const revisions = new Set(this.revisions.areInTable ? [] : [revision]);
      const value = await this.load(revisions);
      revision = [...revisions].at(-1)!;
      const isConsistent = revisions.size === 1;
      if (isConsistent) {
        this.mark(false);
        this.cached = { revision, value };
        this.mark(true);
      }
      if (isConsistent || reads === MAX_READS) {
        stopTimer?.();
        return value;
      }
    }
  }
}
