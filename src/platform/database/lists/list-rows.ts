import { setImmediate as turn } from 'node:timers/promises';
import type { ObjectLiteral, Repository } from 'typeorm';
import { MAX_ID } from '../../config/max-id.js';
import {
  type ReadRows,
  readRows,
  type ServiceDataSource,
} from '../connection/service-data-source.js';
import {
  type Criteria,
  getColumn,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../statements/statement-parts.js';

/** The id of a row. */
export type Id = number | string;

/** How many rows are read with one statement and converted in one turn of the event loop, in about 8 ms. */
const CHUNK_SIZE = 2_000;

/** The columns of the number of rows and of their revision; no property has these names. */
const TOTAL = '#total';
const REVISION = '#revision';

/** The rows of a list, a part at a time. */
export type RowChunks<Entity> = Iterable<Entity[]> | AsyncIterable<Entity[]>;

/** Which page of a list to read: the one with a number, at an offset, or after an id; without these, the first one. */
export type PageRequest = {
  readonly limit: number;
  readonly page?: number | undefined;
  /** The number of the first page, by default 1. */
  readonly firstPage?: 0 | 1;
  readonly offset?: number | undefined;
  /** The query parameter that selects the next page, if it has another name than these; false if there is none. */
  readonly next?: string | false;
} & (
  | { readonly after?: Id | undefined; readonly order?: undefined }
  | { readonly after?: undefined; readonly order?: RowOrder }
);

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

/** The rows that one statement reads, and whether it also reads their revision or their total. */
interface RowRange {
  readonly limit: number;
  readonly after?: Id | undefined;
  readonly offset?: number;
  readonly order?: RowOrder | undefined;
  /** Whether the revision of the rows is read, too, if it is in a table. */
  readonly withRevision?: boolean;
  /** Whether the rows of all pages are counted. */
  readonly counts?: boolean;
}

/** What was built from rows, and their revision, if it is in a table. */
export interface Built<Result> {
  readonly result: Result;
  readonly revision: number | undefined;
}

/** Reads the rows of a table in id order, all or a page, optionally filtered. */
export class ListRows<Entity extends ObjectLiteral> {
  private readonly dataSource: ServiceDataSource;

  constructor(private readonly repository: Repository<Entity>) {
    this.dataSource = repository.manager.dataSource as ServiceDataSource;
  }

  /**
   * Reads all rows of one moment by the primary key, and lets other requests run after each chunk.
   *
   * @param build creates a result from the chunks
   */
  async readAll<Result>(
    filters: Criteria<Entity>,
    build: (chunks: RowChunks<Entity>) => Promise<Result>,
  ): Promise<Built<Result>> {
    const first = { limit: CHUNK_SIZE, withRevision: true };
    const { rows, revision } = await this.read(filters, first);
    // A single statement needs no snapshot.
    if (rows.length < CHUNK_SIZE) return { result: await build([rows]), revision };
    return this.dataSource.readSnapshot(async (readChunk) => {
      const chunk = await this.read(filters, first, readChunk);
      const result = await build(this.readChunks(filters, chunk.rows, readChunk));
      return { result, revision: chunk.revision };
    });
  }

  /** @param rows the first chunk */
  private async *readChunks(
    filters: Criteria<Entity>,
    rows: Entity[],
    readChunk: ReadRows,
  ): AsyncGenerator<Entity[]> {
    let chunk = rows;
    yield chunk;
    while (chunk.length === CHUNK_SIZE) {
      await turn();
      const after = chunk.at(-1)!['id'] as Id;
      ({ rows: chunk } = await this.read(filters, { limit: CHUNK_SIZE, after }, readChunk));
      yield chunk;
    }
  }

  /** Reads a page. */
  async readPage(
    request: PageRequest,
    filters: Criteria<Entity>,
    options: Pick<RowRange, 'counts' | 'withRevision'>,
  ): Promise<{ rows: Entity[]; paging: Paging; revision: number | undefined }> {
    const { limit, order } = request;
    const { start, after, parameter, next } = toPosition(request);
    // One more row than the page has shows whether there is another page.
    const range = { ...options, limit: limit + 1, after, offset: start, order };
    const { rows, total, revision } = await this.read(filters, range);
    const hasMore = rows.length > limit;
    if (hasMore) rows.pop();
    const name = hasMore && request.next !== false && (request.next ?? parameter);
    const selected = name ? { [name]: next ?? (rows.at(-1)!['id'] as Id) } : undefined;
    return { rows, paging: { ...request, next: selected, hasMore, total }, revision };
  }

  /**
   * Reads rows with one statement.
   *
   * @param readStatement by default reads outside of transactions
   */
  private async read(
    filters: Criteria<Entity>,
    { limit, after, offset = 0, order, withRevision = false, counts = false }: RowRange,
    readStatement: ReadRows = (sql, values) => readRows(this.repository.manager, sql, values),
  ): Promise<{ rows: Entity[]; total?: number; revision?: number }> {
    const { metadata } = this.repository;
    const table = `"${metadata.tableName}"`;
    const parameters = new StatementParameters(this.dataSource);
    const getConditions = (): string[] => toConditions(this.repository, filters, parameters);
    const facts: string[] = [];
    if (counts)
      facts.push(`(SELECT count(*) FROM ${table}${toWhere(getConditions())}) AS "${TOTAL}"`);
    const hasRevision = withRevision && this.dataSource.dialect.hasRevisionTable;
    if (hasRevision)
      facts.push(
        `(SELECT "value" FROM "revisions" WHERE "name" = '${metadata.tableName}') AS "${REVISION}"`,
      );
    const conditions = [...getConditions(), this.dataSource.dialect.isPrimary];
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    // Both databases reject an offset of more than 64 bits, such as that of a page whose DTO has no limits.
    let sql = `SELECT ${selectColumns(metadata)} FROM ${table}${toWhere(conditions)} ORDER BY ${this.toOrderBy(order, 'databaseName')} LIMIT ${limit} OFFSET ${Math.min(offset, MAX_ID)}`;
    if (facts.length > 0) {
      // The total and the revision come in an extra row; in each row, they would cost 50 % more.
      const nulls = metadata.columns.map(({ propertyName }) => `NULL AS "${propertyName}"`);
      sql = `SELECT ${[...nulls, ...facts].join(', ')} UNION ALL SELECT "rows".*, ${facts.map(() => 'NULL').join(', ')} FROM (${sql}) AS "rows"`;
      sql =
        order === undefined
          ? `${sql} ORDER BY "id" NULLS LAST`
          : `SELECT * FROM (${sql}) AS "page" ORDER BY "id" IS NULL, ${this.toOrderBy(order, 'propertyName')}`;
    }
    const found = await readStatement<Record<string, unknown>>(sql, parameters.values);
    const fact = facts.length === 0 ? {} : found.pop()!;
    for (const name of Object.keys(fact).slice(metadata.columns.length))
      for (const row of found) row[name] = undefined;
    const rows = toEntities(this.repository, found);
    return {
      rows,
      ...(counts && { total: Number(fact[TOTAL]) }),
      ...(hasRevision && { revision: Number(fact[REVISION]) }),
    };
  }

  /** @param name which name of a column the statement uses */
  private toOrderBy(
    { by, isDescending = false }: RowOrder = { by: 'id' },
    name: 'databaseName' | 'propertyName',
  ): string {
    const direction = isDescending ? 'DESC' : 'ASC';
    if (by === 'id') return `"id" ${direction}`;
    const column = getColumn(this.repository, by);
    const { dialect, driver } = this.dataSource;
    const isText = /^(character( varying)?|text)$/.test(driver.normalizeType(column));
    const collation =
      isText && dialect.binaryCollation ? ` COLLATE "${dialect.binaryCollation}"` : '';
    const nulls = isDescending ? 'FIRST' : 'LAST';
    return `"${column[name]}"${collation} ${direction} NULLS ${nulls}, "id" ${direction}`;
  }
}

const toWhere = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;

/** Returns where a page begins, and the query parameter that selects the next one, with its value unless it is an id. */
export function toPosition({ limit, page, firstPage = 1, offset, after }: PageRequest) {
  const start = page === undefined ? (offset ?? 0) : (page - firstPage) * limit;
  const byOffset = offset === undefined ? 'after' : 'offset';
  const parameter = page === undefined ? byOffset : 'page';
  const next = { page: (page ?? 0) + 1, offset: start + limit, after: undefined }[parameter];
  return { start, after, parameter, next, isFirst: start === 0 && after === undefined };
}
