import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import { generateKey } from '../../../src/platform/config/key-format.js';
import {
  epochMillisTransformer,
  uuidTransformer,
} from '../../../src/platform/database/statements/columns.js';
import { PRODUCT } from '../../../src/product.js';

/** Returns a key that does not exist, with a valid checksum, so that it is looked up in the database. */
export const unknownKey = (): string => generateKey(PRODUCT.keyPrefixes[0]);

/** The number of values generated so far. */
let count = 0;

/**
 * Inserts a row with a valid value in every required column, and the rows it references. Values differ
 * from row to row, in case they must be unique.
 *
 * @returns the id of the row
 */
export async function insertRow(dataSource: DataSource, table: string): Promise<number | string> {
  const [{ type }] = dataSource.getMetadata(table).primaryColumns as [ColumnMetadata];
  const id = String((await insert(dataSource, table))['id']);
  return type === 'varchar' ? id : Number(id);
}

/** @returns the values of the row, by property */
async function insert(dataSource: DataSource, table: string): Promise<Record<string, unknown>> {
  const { target, columns, foreignKeys } = dataSource.getMetadata(table);
  const row: Record<string, unknown> = {};
  for (const column of columns) {
    if (column.isGenerated || column.isNullable) continue;
    const foreignKey = foreignKeys.find((candidate) => candidate.columns[0] === column);
    if (foreignKey === undefined) {
      row[column.propertyName] = sampleValue(column);
    } else {
      const referenced = await insert(dataSource, foreignKey.referencedTablePath);
      row[column.propertyName] = referenced[foreignKey.referencedColumns[0]!.propertyName];
    }
  }
  const { identifiers } = await dataSource.getRepository(target).insert(row);
  return { ...row, ...identifiers[0] };
}

function sampleValue({ type, transformer }: ColumnMetadata): unknown {
  count++;
  if (transformer === epochMillisTransformer) return new Date(count);
  if (transformer === uuidTransformer) return randomUUID();
  if (type === 'boolean') return true;
  if (type === 'json') return {};
  // A number that no test counts to.
  return type === 'varchar' || type === 'text' ? String(count) : 1_000_000_000 + count;
}

/** Creates an Idempotency-Key as a request has it, which counts how often its response is repeated. */
export function createKey(value: string = randomUUID(), fingerprint = 'a') {
  const key = { apiKeyId: 1, value, fingerprint, replays: 0, onReplay: () => void key.replays++ };
  return key;
}
