/** Columns for entities and migrations that work on both databases. */
import { randomInt } from 'node:crypto';
import { applyDecorators } from '@nestjs/common';
import {
  Check,
  PrimaryColumn,
  type QueryRunner,
  type TableColumnOptions,
  type ValueTransformer,
  VersionColumn as TypeOrmVersionColumn,
} from 'typeorm';
import { MAX_ID } from '../../config/max-id.js';
import { getDialect } from '../connection/service-data-source.js';

const UUID_LENGTH = 36;

/** Converts a bigint, which PostgreSQL's driver returns as a string, to a number of up to 53 bits. */
export const bigintTransformer: ValueTransformer = {
  to: (value: unknown) => value,
  from: (value: string | number | null) => (value === null ? null : Number(value)),
};

/** Stores a Date as milliseconds since 1970 UTC, which both databases store and compare in the same way. */
export const epochMillisTransformer: ValueTransformer = {
  to: (date: Date | null | undefined) => date?.getTime() ?? date,
  from: (time: number | string | null) => (time === null ? null : new Date(Number(time))),
};

/** Stores an RFC 3339 date and time as milliseconds since 1970 UTC, and returns it in UTC. */
export const dateTimeTransformer: ValueTransformer = {
  to: (text: string | null | undefined) => (typeof text === 'string' ? Date.parse(text) : text),
  from: (time: number | string | null) =>
    time === null ? null : new Date(Number(time)).toISOString(),
};

/** Stores a UUID in lower case (RFC 9562, section 4): of an id, or of one or several references. */
export const uuidTransformer: ValueTransformer = {
  to: (value: string | readonly string[] | null | undefined) =>
    typeof value === 'string'
      ? value.toLowerCase()
      : (value?.map((uuid) => uuid.toLowerCase()) ?? value),
  from: (uuid: unknown) => uuid,
};

/** The type of an id, and who assigns it. */
export interface IdOptions {
  /** By default, integer. */
  readonly type?: 'integer' | 'uuid' | 'text';
  /** Whether clients assign it. If not, the database assigns an integer, and the service a UUID of version 7. */
  readonly byClient?: boolean;
  readonly length?: number;
  /** The name of a check, also of the migration, that limits an integer to the numbers that JSON represents exactly. */
  readonly check?: string;
}

/** The metadata key of the {@link IdOptions} of an entity. */
export const ID_OPTIONS = 'platform:id';

/**
 * Declares the id of an entity, in a property named `id`. What the database or the service assigns is ascending and never
 * reused. {@link idColumn} is its column in a migration.
 */
export function IdColumn(constraintName: string, options: IdOptions = {}): PropertyDecorator {
  const { type = 'integer', byClient = false, length = UUID_LENGTH, check } = options;
  const constraint = { primaryKeyConstraintName: constraintName };
  const column =
    type === 'integer'
      ? PrimaryColumn('bigint', {
          ...constraint,
          generated: byClient ? undefined : 'increment',
          transformer: bigintTransformer,
        })
      : PrimaryColumn('varchar', {
          ...constraint,
          length,
          collation: 'C',
          transformer: type === 'uuid' ? uuidTransformer : undefined,
        });
  return applyDecorators(
    column,
    ({ constructor }: object) => Reflect.defineMetadata(ID_OPTIONS, options, constructor),
    ...(check === undefined ? [] : [Check(check, `"id" <= ${MAX_ID}`)]),
  );
}

/**
 * The id column of a migration. SQLite assigns values only to a column of the type INTEGER, which has 64 bits, too.
 * A text or a UUID is compared byte by byte, as SQLite does, so that both databases have the same order.
 */
export function idColumn(
  { dataSource }: QueryRunner,
  constraintName: string,
  { type = 'integer', byClient = false, length = UUID_LENGTH }: IdOptions = {},
): TableColumnOptions {
  const common = { name: 'id', isPrimary: true, primaryKeyConstraintName: constraintName };
  const { binaryCollation: collation, generatedIdType } = getDialect(dataSource);
  if (type !== 'integer') return { ...common, type: 'varchar', length: String(length), collation };
  if (byClient) return { ...common, type: 'bigint' };
  return { ...common, type: generatedIdType, isGenerated: true, generationStrategy: 'increment' };
}

/** The maximum of a version, that of its column. */
export const MAX_VERSION = 2 ** 31 - 1;

/** Creates a version. It is random, because a counter would repeat after a restore or a failover. */
export const createVersion = (): number => randomInt(1, MAX_VERSION);

/**
 * Declares the version of a row, which clients see as its ETag: random, and another one after each `updateReturning`;
 * TypeORM's own updates increment it. The property must be named `version`. {@link versionColumn} is its column in a
 * migration.
 */
export function VersionColumn(): PropertyDecorator {
  return TypeOrmVersionColumn({ type: 'integer', default: 1 });
}

/** The version column of a migration. */
export const versionColumn: TableColumnOptions = { name: 'version', type: 'integer', default: 1 };
