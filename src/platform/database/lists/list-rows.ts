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

/** The column of the number of rows; no property has this name. */
const TOTAL = '#total';

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

/** The rows that one statement reads, and whether it also reads their total. */
interface RowRange {
  readonly limit: number;
  readonly after?: Id | undefined;
  readonly offset?: number;
  readonly order?: RowOrder | undefined;
  /** Whether the rows of all pages are counted. */
  readonly counts?: boolean;
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
  ): Promise<Result> {
    const { rows } = await this.read(filters, { limit: CHUNK_SIZE });
    // A single statement needs no snapshot.
    if (rows.length < CHUNK_SIZE) return build([rows]);
    return this.dataSource.readSnapshot((readChunk) => build(this.readChunks(filters, readChunk)));
  }

  private async *readChunks(
    filters: Criteria<Entity>,
    readChunk: ReadRows,
  ): AsyncGenerator<Entity[]> {
    let after: Id | undefined;
    do {
      const { rows } = await this.read(filters, { limit: CHUNK_SIZE, after }, readChunk);
      yield rows;
      after = rows.length < CHUNK_SIZE ? undefined : (rows.at(-1)!['id'] as Id);
      await turn();
    } while (after !== undefined);
  }

  /**
   * Reads a page.
   *
   * @param counts whether the rows of all pages are counted
   */
  async readPage(
    request: PageRequest,
    filters: Criteria<Entity>,
    counts: boolean,
  ): Promise<{ rows: Entity[]; paging: Paging }> {
    const { limit, order } = request;
    const { start, after, parameter, next } = toPosition(request);
    // One more row than the page has shows whether there is another page.
    const range = { limit: limit + 1, after, offset: start, order, counts };
    const { rows, total } = await this.read(filters, range);
    const hasMore = rows.length > limit;
    if (hasMore) rows.pop();
    const name = hasMore && request.next !== false && (request.next ?? parameter);
    const selected = name ? { [name]: next ?? (rows.at(-1)!['id'] as Id) } : undefined;
    return { rows, paging: { ...request, next: selected, hasMore, total } };
  }

  /**
   * Reads rows with one statement.
   *
   * @param readStatement by default reads outside of transactions
   */
  private async read(
    filters: Criteria<Entity>,
    { limit, after, offset = 0, order, counts = false }: RowRange,
    readStatement: ReadRows = (sql, values) => readRows(this.repository.manager, sql, values),
  ): Promise<{ rows: Entity[]; total?: number }> {
    const { metadata } = this.repository;
    const table = `"${metadata.tableName}"`;
    const parameters = new StatementParameters(this.dataSource);
    const getConditions = (): string[] => toConditions(this.repository, filters, parameters);
    // The values of a statement are in the order of its placeholders: those of the count are the first ones.
    const count = counts && `(SELECT count(*) FROM ${table}${toWhere(getConditions())})`;
    const conditions = [...getConditions(), this.dataSource.dialect.isPrimary];
    if (after !== undefined)
      conditions.push(`"id" > ${parameters.add(after, metadata.primaryColumns[0]!)}`);
    // Both databases reject an offset of more than 64 bits, such as that of a page whose DTO has no limits.
    let sql = `SELECT ${selectColumns(metadata)} FROM ${table}${toWhere(conditions)} ORDER BY ${this.toOrderBy(order, 'databaseName')} LIMIT ${limit} OFFSET ${Math.min(offset, MAX_ID)}`;
    if (count) {
      // The total comes in an extra row; in each row, it would cost 50 % more.
      const nulls = metadata.columns.map(({ propertyName }) => `NULL AS "${propertyName}"`);
      sql = `SELECT ${nulls.join(', ')}, ${count} AS "${TOTAL}" UNION ALL SELECT "rows".*, NULL FROM (${sql}) AS "rows"`;
      sql = `SELECT * FROM (${sql}) AS "page" ORDER BY "id" IS NULL, ${this.toOrderBy(order, 'propertyName')}`;
    }
    const found = await readStatement<Record<string, unknown>>(sql, parameters.values);
    if (!count) return { rows: toEntities(this.repository, found) };
    const total = Number(found.pop()![TOTAL]);
    for (const row of found) row[TOTAL] = undefined;
    return { rows: toEntities(this.repository, found), total };
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
