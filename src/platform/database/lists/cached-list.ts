import { setImmediate as turn } from 'node:timers/promises';
import type { ObjectLiteral, Repository } from 'typeorm';
import { MAX_ID } from '../../config/max-id.js';
import { ApiError } from '../../errors/api-error.js';
import { singleFlight } from '../connection/single-flight.js';
import type { CachedJsonResponse } from '../../http/responses/cached-json-response.js';
import type { SharedBodies } from '../../http/server/shared-bodies.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { Deadline, withDeadline } from '../connection/deadline.js';
import { isPostgres } from '../connection/is-postgres.js';
import { readRows } from '../connection/service-data-source.js';
import {
  type Criteria,
  getColumn,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../statements/row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** The id of a row. */
export type Id = number | string;

/** How many rows are read with one statement and converted in one turn of the event loop, in about 8 ms. */
const CHUNK_SIZE = 2_000;

/** The bytes that a cached list or page takes besides its body and its key, about. */
const OVERHEAD = 2_000;

/** The names of the number of rows and of their revision, which no property has. */
const TOTAL = '#total';
const REVISION = '#revision';

/** How often rows are read that change meanwhile. */
const MAX_READS = 3;

/** The rows of a list, a part at a time. */
export type RowChunks<Entity> = Iterable<Entity[]> | AsyncIterable<Entity[]>;

/** Which page of a list to read: the first or the one after an id, the one at an offset, or with a number. */
export type PageRequest = (
  | { readonly after?: Id | undefined; readonly offset?: undefined; readonly page?: undefined }
  | { readonly offset: number; readonly page?: undefined; readonly order?: RowOrder }
  /** By default, the first page has the number 1. */
  | { readonly page: number; readonly firstPage?: 0 | 1; readonly order?: RowOrder }
) & {
  readonly limit: number;
  /** The query parameter that selects the next page, if it has another name than above; false if there is none. */
  readonly next?: string | false;
};

/** The order of rows: by a property, then by the id. Texts are sorted by their bytes; null is after all values. */
export interface RowOrder {
  readonly by: string;
  readonly isDescending?: boolean;
}

/** What belongs to the rows of a page. */
export interface Paging {
  readonly limit?: number;
  readonly offset?: number;
  readonly page?: number;
  /** The query parameter that selects the next page, if there is one, with its value. */
  readonly next?: Readonly<Record<string, Id>> | undefined;
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
export class CachedList<Entity extends ObjectLiteral> {
  /** Lists and first pages, by filters and limit. */
  private readonly queries = new Map<string, CachedQuery>();

  /**
   * @param build creates the response from the rows of a page or, without paging, from all
   * @param counts whether pages have a total
   */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly build: (
      rows: RowChunks<Entity>,
      paging: Paging,
    ) => Promise<CachedJsonResponse>,
    private readonly revisions: TableRevisionTracker,
    private readonly bodies: SharedBodies,
    private readonly metrics: DatabaseMetrics,
    private readonly counts = false,
  ) {}

  /** @throws {DatabaseUnavailableError} */
  get(filters: Criteria<Entity> = {}): Promise<CachedJsonResponse> {
    return this.getCached([], filters, (revisions) =>
      this.build(this.readChunks(filters, revisions), {}),
    );
  }

  /** @throws {ApiError} VALIDATION_FAILED if there is no such page; {@link DatabaseUnavailableError} */
  getPage(request: PageRequest, filters: Criteria<Entity> = {}): Promise<CachedJsonResponse> {
    const { start, offset, ...kind } = locate(request);
    // SQLite ignores a negative LIMIT or OFFSET, and PostgreSQL rejects it.
    if (![request.limit - 1, offset].every((each) => Number.isInteger(each) && each >= 0))
      throw new ApiError('VALIDATION_FAILED', `limit or ${kind.by} is before the first row`);
    if (start !== undefined || offset > 0) return withDeadline(this.loadPage(request, filters));
    const page = [request.limit, request.next, kind, getOrder(request)];
    return this.getCached(page, filters, (revisions) => this.loadPage(request, filters, revisions));
  }

  /** @param page what identifies the page */
  private getCached(
    page: unknown,
    filters: Criteria<Entity>,
    load: LoadResponse,
  ): Promise<CachedJsonResponse> {
    const { manager, metadata } = this.repository;
    const parameters = new StatementParameters(manager.dataSource);
    const conditions = toConditions(this.repository, filters, parameters);
    const key = JSON.stringify([page, conditions, parameters.values]);
    let query = this.queries.get(key);
    if (query === undefined) {
      const bytes = OVERHEAD + 2 * key.length;
      const evict = () => this.queries.delete(key);
      query = new CachedQuery(
        metadata.tableName,
        load,
        bytes,
        evict,
        this.revisions,
        this.bodies,
        this.metrics,
      );
      this.queries.set(key, query);
    }
    this.bodies.use(query);
    return query.get();
  }

  private async loadPage(
    request: PageRequest,
    filters: Criteria<Entity>,
    revisions?: Set<number>,
  ): Promise<CachedJsonResponse> {
    const { limit } = request;
    const { start, offset, by, next } = locate(request);
    // One more row than the page has shows whether there is another page.
    const range = {
      limit: limit + 1,
      after: start,
      offset: Math.min(offset, MAX_ID),
      order: getOrder(request),
    };
    const { rows, total } = await this.query(filters, range, revisions, this.counts);
    const hasMore = rows.length > limit;
    if (hasMore) rows.pop();
    const parameter = hasMore && request.next !== false && (request.next ?? by);
    const selected = parameter ? { [parameter]: next ?? (rows.at(-1)!['id'] as Id) } : undefined;
    return this.build([rows], { ...request, next: selected, hasMore, total });
  }

  /** Reads all rows by the primary key, and lets other requests run after each chunk. */
  private async *readChunks(
    filters: Criteria<Entity>,
    revisions: Set<number>,
  ): AsyncGenerator<Entity[]> {
    let rows: Entity[] = [];
    do {
      if (rows.length > 0) await turn();
      const after = rows.at(-1)?.['id'] as Id | undefined;
      ({ rows } = await this.query(filters, { limit: CHUNK_SIZE, after }, revisions));
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
    { limit, after, offset = 0, order }: RowRange,
    revisions?: Set<number>,
    counts = false,
  ): Promise<{ rows: Entity[]; total?: number }> {
    const { manager, metadata } = this.repository;
    const table = `"${metadata.tableName}"`;
    const parameters = new StatementParameters(manager.dataSource);
    const getConditions = (): string[] => toConditions(this.repository, filters, parameters);
    const facts: string[] = [];
    if (counts)
      facts.push(`(SELECT count(*) FROM ${table}${toWhere(getConditions())}) AS "${TOTAL}"`);
    const hasRevision = revisions !== undefined && this.revisions.areInTable;
    if (hasRevision)
      facts.push(
        `(SELECT "value" FROM "revisions" WHERE "name" = '${metadata.tableName}') AS "${REVISION}"`,
      );
    const conditions = getConditions();
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    let sql = `SELECT ${selectColumns(metadata)} FROM ${table}${toWhere(conditions)} ORDER BY ${this.toOrderBy(order, 'databaseName')} LIMIT ${limit} OFFSET ${Math.min(offset, MAX_ID)}`;
    if (facts.length > 0) {
      // In a row of their own: in each of a list, they would take half of its time again.
      const nulls = metadata.columns.map(({ propertyName }) => `NULL AS "${propertyName}"`);
      sql = `SELECT ${[...nulls, ...facts].join(', ')} UNION ALL SELECT "rows".*, ${facts.map(() => 'NULL').join(', ')} FROM (${sql}) AS "rows"`;
      sql =
        order === undefined
          ? `${sql} ORDER BY "id" NULLS LAST`
          : `SELECT * FROM (${sql}) AS "page" ORDER BY "id" IS NULL, ${this.toOrderBy(order, 'propertyName')}`;
    }
    const found = await readRows<Record<string, unknown>>(manager, sql, parameters.values);
    const fact = facts.length === 0 ? {} : found.pop()!;
    if (hasRevision) revisions.add(Number(fact[REVISION]));
    for (const name of Object.keys(fact).slice(metadata.columns.length))
      for (const row of found) row[name] = undefined;
    const rows = toEntities(this.repository, found);
    return counts ? { rows, total: Number(fact[TOTAL]) } : { rows };
  }

  /** @param name which name of a column the statement uses */
  private toOrderBy(
    { by, isDescending = false }: RowOrder = { by: 'id' },
    name: 'databaseName' | 'propertyName',
  ): string {
    const direction = isDescending ? 'DESC' : 'ASC';
    if (by === 'id') return `"id" ${direction}`;
    const column = getColumn(this.repository, by);
    const { dataSource } = this.repository.manager;
    const isText = /^(character( varying)?|text)$/.test(dataSource.driver.normalizeType(column));
    // SQLite compares bytes already.
    const collation = isText && isPostgres(dataSource) ? ' COLLATE "C"' : '';
    const nulls = isDescending ? 'FIRST' : 'LAST';
    return `"${column[name]}"${collation} ${direction} NULLS ${nulls}, "id" ${direction}`;
  }
}

const getOrder = (request: PageRequest): RowOrder | undefined =>
  'order' in request ? request.order : undefined;

/** Returns the start of a page, and the query parameter that selects the next one, with its value unless it is an id. */
function locate(request: PageRequest) {
  if (request.page !== undefined) {
    const { limit, page, firstPage = 1 } = request;
    return { offset: (page - firstPage) * limit, by: 'page', next: page + 1 };
  }
  if (request.offset !== undefined) {
    const { limit, offset } = request;
    return { offset, by: 'offset', next: offset + limit };
  }
  return { start: request.after, offset: 0, by: 'after' };
}

const toWhere = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;

/** Which rows one statement reads. */
interface RowRange {
  readonly limit: number;
  readonly after?: Id | undefined;
  readonly offset?: number;
  readonly order?: RowOrder | undefined;
}

/** Creates a response from rows, and collects their revisions. */
type LoadResponse = (revisions: Set<number>) => Promise<CachedJsonResponse>;

/** The response to one combination of filters and limit, until the table changes. */
class CachedQuery {
  private cached: { readonly revision: number; readonly response: CachedJsonResponse } | undefined;
  private pendingRevision: number | undefined;
  private isEvicted = false;
  private readonly refresh = singleFlight(() => this.rebuild());

  constructor(
    private readonly table: string,
    private readonly load: LoadResponse,
    private readonly ownBytes: number,
    private readonly remove: () => void,
    private readonly revisions: TableRevisionTracker,
    private readonly bodies: SharedBodies,
    private readonly metrics: DatabaseMetrics,
  ) {}

  get bytes(): number {
    return this.ownBytes + (this.cached?.response.bytes ?? 0);
  }

  async get(): Promise<CachedJsonResponse> {
    const deadline = new Deadline();
    const revision = await this.revisions.read(this.table, deadline);
    if (this.cached?.revision === revision) return this.cached.response;
    this.pendingRevision = revision;
    return withDeadline(this.refresh(), deadline);
  }

  evict(): void {
    this.isEvicted = true;
    if (this.cached !== undefined) this.cached.response.isCached = false;
    this.remove();
  }

  private keep(revision: number, response: CachedJsonResponse): void {
    if (this.cached !== undefined) this.cached.response.isCached = false;
    this.cached = { revision, response };
    if (this.isEvicted) return;
    response.isCached = true;
    this.bodies.use(this);
  }

  private async rebuild(): Promise<CachedJsonResponse> {
    let revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.response;
    const stopTimer = this.metrics.listRebuildDurations?.startTimer({
      db_collection_name: this.table,
    });
    for (let reads = 1; ; reads++) {
      // Read before the rows: in the other order, a change between the two would be missed.
      const revisions = new Set(this.revisions.areInTable ? [] : [revision]);
      const response = await this.load(revisions);
      revision = [...revisions].at(-1)!;
      const isConsistent = revisions.size === 1;
      if (isConsistent) this.keep(revision, response);
      if (isConsistent || reads === MAX_READS) {
        stopTimer?.();
        return response;
      }
    }
  }
}
