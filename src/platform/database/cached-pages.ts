import type { ObjectLiteral, Repository } from 'typeorm';
import { CachedQuery } from './cached-query.js';
import type { DatabaseMetrics } from './database-metrics.js';
import { withDeadline } from './deadline.js';
import {
  type Criteria,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from './row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** The number of first pages, one per combination of filters and limit, that are cached. */
const MAX_CACHED_PAGES = 50;

/** The `limit` of a list that is not divided into pages. */
export const ALL_ROWS = Number.MAX_SAFE_INTEGER;

/** Which page of a list to read. */
export interface PageRequest {
  /** The maximum number of rows. */
  readonly limit: number;
  /** The id after which the page starts; by default the page is the first one. */
  readonly after?: number | undefined;
}

/**
 * Pages of a table in id order, optionally filtered. The most recently used first pages are cached
 * until the table changes (see {@link CachedQuery}); the others are read from the database, by the
 * primary key. A filter needs an index that starts with its columns.
 */
export class CachedPages<Entity extends ObjectLiteral, Value> {
  /** By limit and filters; the least recently used first. */
  private readonly firstPages = new Map<string, CachedQuery<Entity, Value>>();

  /**
   * @param build computes the value from the rows of a page; `next` is the `after` of the next page, and
   *   undefined if there is none
   */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly build: (rows: Entity[], next: number | undefined) => Value,
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Returns a page.
   *
   * @param filters the values that the rows must have, by property; undefined is no filter
   * @throws {DatabaseUnavailableError}
   */
  get(page: PageRequest, filters: Criteria<Entity> = {}): Value | Promise<Value> {
    if (page.after !== undefined) return withDeadline(this.load(page, filters));
    const key = JSON.stringify([page.limit, filters]);
    const query =
      this.firstPages.get(key) ??
      new CachedQuery(
        this.repository,
        () => this.load(page, filters),
        this.revisions,
        this.metrics,
      );
    // A Map keeps the order of insertion.
    this.firstPages.delete(key);
    this.firstPages.set(key, query);
    if (this.firstPages.size > MAX_CACHED_PAGES)
      this.firstPages.delete(this.firstPages.keys().next().value!);
    return query.get();
  }

  private async load({ limit, after }: PageRequest, filters: Criteria<Entity>): Promise<Value> {
    const { metadata, manager } = this.repository;
    const parameters = new StatementParameters(this.repository);
    const conditions = toConditions(this.repository, filters, parameters);
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    // One more row than the page has shows whether there is another page.
    const result: Record<string, unknown>[] = await manager.query(
      `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" ${where} ORDER BY "id" LIMIT ${limit + 1}`,
      parameters.values,
    );
    const rows = toEntities(this.repository, result);
    if (rows.length <= limit) return this.build(rows, undefined);
    rows.pop();
    return this.build(rows, Number(rows.at(-1)!['id']));
  }
}
