import type { ObjectLiteral, Repository } from 'typeorm';
import {
  BodyTooLargeError,
  type CachedJsonResponse,
} from '../../http/responses/cached-json-response.js';
import type { SharedBodies } from '../../http/server/shared-bodies.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { withDeadline } from '../connection/deadline.js';
import type { ServiceDataSource } from '../connection/service-data-source.js';
import { singleFlight } from '../connection/single-flight.js';
import { type Criteria, StatementParameters, toConditions } from '../statements/statement-parts.js';
import {
  type Built,
  ListRows,
  type PageRequest,
  type Paging,
  type RowChunks,
  toPosition,
} from './list-rows.js';

/** The bytes that a cached list or page takes besides its body and its key, about. */
const OVERHEAD = 2_000;

/** How long a list that is too large is not read again, in milliseconds. */
const TOO_LARGE_MS = 60_000;

/** What the lists of all tables use. */
export interface ListServices {
  readonly bodies: SharedBodies;
  readonly metrics: DatabaseMetrics;
}

/**
 * The rows of a table in id order, all or a page, optionally filtered. The response that is built from them includes every
 * change that was acknowledged before the call, by this process or another. Whole lists and first pages are cached. A
 * filter needs an index; on PostgreSQL the migration of the table must call `addRevisionTrigger`.
 *
 * The rows of a list, and the rows and the total of a page, are of one moment. Pages that follow an id contain every row that
 * exists throughout exactly once; with offsets or numbers, a row may be repeated or missing if others are created or deleted
 * in between.
 *
 * A long list costs several milliseconds of CPU time per 1,000 rows after each change: use pages for a list that may have
 * more than 10,000. One that cannot be built is an error, and is not read again for a minute.
 */
export class CachedList<Entity extends ObjectLiteral> {
  /** Whole lists and first pages, by what identifies them. */
  private readonly entries = new Map<string, CachedResponse>();
  private readonly rows: ListRows<Entity>;

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
    private readonly services: ListServices,
    private readonly counts = false,
  ) {
    this.rows = new ListRows(repository);
  }

  /** @throws {DatabaseUnavailableError} */
  get(filters: Criteria<Entity> = {}): Promise<CachedJsonResponse> {
    return this.getCached('all', filters, () =>
      this.rows.readAll(filters, (chunks) => this.build(chunks, {})),
    );
  }

  /** @throws {DatabaseUnavailableError} */
  async getPage(request: PageRequest, filters: Criteria<Entity> = {}): Promise<CachedJsonResponse> {
    const { isFirst } = toPosition(request);
    const load = async (): Promise<Built<CachedJsonResponse>> => {
      const options = { counts: this.counts, withRevision: isFirst };
      const { rows, paging, revision } = await this.rows.readPage(request, filters, options);
      return { result: await this.build([rows], paging), revision };
    };
    return isFirst ? this.getCached(request, filters, load) : (await withDeadline(load())).result;
  }

  private getCached(
    page: PageRequest | 'all',
    filters: Criteria<Entity>,
    load: LoadResponse,
  ): Promise<CachedJsonResponse> {
    const isFiltered = Object.keys(filters).length > 0;
    const key = JSON.stringify(isFiltered ? [page, this.describe(filters)] : page);
    let entry = this.entries.get(key);
    if (entry === undefined) {
      const { manager, metadata } = this.repository;
      const dataSource = manager.dataSource as ServiceDataSource;
      const ownBytes = OVERHEAD + 2 * key.length;
      const remove = () => this.entries.delete(key);
      entry = new CachedResponse(
        metadata.tableName,
        dataSource,
        load,
        ownBytes,
        remove,
        this.services,
      );
      this.entries.set(key, entry);
      this.services.bodies.update(entry);
    }
    return entry.get();
  }

  /** Returns the same for all criteria that the same rows meet. */
  private describe(filters: Criteria<Entity>): unknown[] {
    const parameters = new StatementParameters(this.repository.manager.dataSource);
    return [toConditions(this.repository, filters, parameters), parameters.values];
  }
}

/** Creates a response from rows. */
type LoadResponse = () => Promise<Built<CachedJsonResponse>>;

/** The response to one combination of filters and page, until the table changes. */
class CachedResponse {
  lastUse = performance.now();
  private cached: { readonly revision: number; readonly response: CachedJsonResponse } | undefined;
  private pendingRevision: number | undefined;
  /** Why the list cannot be built, and until when it is not tried again, in milliseconds of the monotonic clock. */
  private failure: { readonly error: BodyTooLargeError; readonly until: number } | undefined;
  private readonly refresh = singleFlight(() => this.rebuild());

  /** @param remove removes it from its list */
  constructor(
    private readonly table: string,
    private readonly dataSource: ServiceDataSource,
    private readonly load: LoadResponse,
    private readonly ownBytes: number,
    private readonly remove: () => void,
    private readonly services: ListServices,
  ) {}

  get bytes(): number {
    return this.ownBytes + (this.cached?.response.bytes ?? 0);
  }

  async get(): Promise<CachedJsonResponse> {
    this.lastUse = performance.now();
    if (this.failure !== undefined && this.lastUse < this.failure.until) throw this.failure.error;
    const revision = await this.dataSource.readRevision(this.table);
    if (this.cached?.revision === revision) return this.cached.response;
    this.pendingRevision = revision;
    return withDeadline(this.refresh());
  }

  evict(): void {
    this.supersede();
    this.remove();
  }

  private supersede(): void {
    if (this.cached !== undefined) this.cached.response.isCached = false;
  }

  private keep(revision: number, response: CachedJsonResponse): void {
    this.supersede();
    this.cached = { revision, response };
    response.isCached = true;
    this.services.bodies.update(this);
  }

  private async rebuild(): Promise<CachedJsonResponse> {
    // The revision was read before the rows: in the other order, a change between the two would be missed.
    const pendingRevision = this.pendingRevision!;
    if (this.cached?.revision === pendingRevision) return this.cached.response;
    const { listRebuildDurations } = this.services.metrics;
    const stopTimer = listRebuildDurations?.startTimer({ db_collection_name: this.table });
    try {
      const { result, revision = pendingRevision } = await this.load();
      this.keep(revision, result);
      return result;
    } catch (error) {
      if (error instanceof BodyTooLargeError) {
        this.failure = { error, until: performance.now() + TOO_LARGE_MS };
        this.services.metrics.tooLargeLists?.inc({ db_collection_name: this.table });
      }
      throw error;
    } finally {
      stopTimer?.();
    }
  }
}
