/** Writes the entity of a resource and the migration of its table: once, then they belong to the team. */
import type { Column, Module, Resource, ResourceId } from '../model.js';
import { toKebabCase, toPascalCase, toSnakeCase } from '../names.js';
import {
  getClassNames,
  literal,
  object,
  propertyName,
  quote,
  SourceFile,
  toType,
} from './source.js';

export const getEntityPath = (module: string, { name }: Resource): string =>
  `src/modules/${module}/${toKebabCase(name)}.entity.ts`;

/** The longest name of a constraint or an index that PostgreSQL keeps, in bytes. */
const MAX_NAME_LENGTH = 63;

/** The type of a column, for an entity and for a migration, and the conversion of its values. */
interface ColumnType {
  readonly entity: string;
  readonly migration: string;
  readonly length?: number;
  readonly transformer?: 'bigintTransformer' | 'dateTimeTransformer' | 'uuidTransformer';
}

const INT32 = 2 ** 31;

function getColumnType({ schema, hashed, references }: Column): ColumnType {
  const { type, format, maxLength, minimum = -Infinity, maximum = Infinity } = schema;
  if (hashed === true) return { entity: 'text', migration: 'text' };
  if (references !== undefined && type === 'integer')
    return { entity: 'bigint', migration: 'bigint', transformer: 'bigintTransformer' };
  if (type === 'boolean') return { entity: 'boolean', migration: 'boolean' };
  if (type === 'number') return { entity: 'double precision', migration: 'double precision' };
  if (type === 'integer') {
    if (format === 'int32' || (minimum >= -INT32 && maximum < INT32))
      return { entity: 'integer', migration: 'integer' };
    return { entity: 'bigint', migration: 'bigint', transformer: 'bigintTransformer' };
  }
  // A JSON value.
  if (type !== 'string') return { entity: 'simple-json', migration: 'text' };
  if (format === 'date-time')
    return { entity: 'bigint', migration: 'bigint', transformer: 'dateTimeTransformer' };
  if (references !== undefined)
    return { entity: 'varchar', migration: 'varchar', length: 36, transformer: 'uuidTransformer' };
  if (format === 'date') return { entity: 'varchar', migration: 'varchar', length: 10 };
  if (format === 'uuid') return { entity: 'varchar', migration: 'varchar', length: 36 };
  // An enum may get longer values, and a text without a limit has none here, either.
  if (schema.enum !== undefined || maxLength === undefined || maxLength > 10_000)
    return { entity: 'text', migration: 'text' };
  return { entity: 'varchar', migration: 'varchar', length: maxLength };
}

export const getConstraintName = (
  kind: 'pk' | 'fk' | 'uq' | 'ix' | 'ck',
  table: string,
  ...columns: string[]
): string => [kind, table, ...columns].join('_').slice(0, MAX_NAME_LENGTH);

/** The options of `@IdColumn` and `idColumn`. */
function writeIdOptions({ kind, by }: ResourceId): string {
  if (kind === 'integer' && by === 'service') return '';
  const options = object({
    type: kind === 'integer' ? undefined : quote(kind),
    byClient: by === 'client' ? 'true' : undefined,
    length: kind === 'text' ? '255' : undefined,
  });
  return `, ${options}`;
}

export function writeEntity(module: Module, resource: Resource): string {
  const file = new SourceFile(getEntityPath(module.name, resource));
  const { name, table, id, columns, versioned } = resource;
  const checks =
    id.kind === 'integer'
      ? `\n@${file.use('Check')}(${quote(getConstraintName('ck', table, 'id'))}, \`"id" <= \${${file.use('MAX_ID')}}\`)`
      : '';
  const indexes = columns
    .filter(({ indexed, unique, references }) => indexed && !unique && references === undefined)
    .map(
      ({ property, column }) =>
        `\n@${file.use('Index')}(${quote(getConstraintName('ix', table, column))}, [${quote(property)}, 'id'])`,
    );
  const uniques = columns
    .filter(({ unique }) => unique)
    .map(
      ({ property, column }) =>
        `\n@${file.use('Unique')}(${quote(getConstraintName('uq', table, column))}, [${quote(property)}])`,
    );
  const properties = columns.map((column) => writeColumn(file, table, column));
  const code = `/** A row of the table \`${table}\`. */
@${file.use('Entity')}(${quote(table)})${checks}${uniques.join('')}${indexes.join('')}
export class ${name}Entity {
  @${file.use('IdColumn')}(${quote(getConstraintName('pk', table))}${writeIdOptions(id)})
  id!: ${id.kind === 'integer' ? 'number' : 'string'};
${versioned ? `\n  @${file.use('VersionColumn')}()\n  version!: number;\n` : ''}
  ${properties.join('\n\n  ')}
}`;
  for (const className of new Set(
    columns
      .filter(({ hidden, hashed }) => !(hidden === true && hashed === true))
      .flatMap(({ schema }) => getClassNames(schema)),
  ))
    file.import(`src/modules/${module.name}/${module.name}.api.gen.js`, `type ${className}`);
  return file.render(code);
}

function writeColumn(file: SourceFile, table: string, column: Column): string {
  const { property, references, nullable, schema, hashed, assigned } = column;
  const { entity, length, transformer } = getColumnType(column);
  const options = object({
    name: column.column === property ? undefined : quote(column.column),
    length: length === undefined ? undefined : String(length),
    nullable: nullable ? 'true' : undefined,
    // A replacement, which lacks it, keeps it.
    update: nullable && assigned !== undefined ? 'false' : undefined,
    transformer: transformer && file.use(transformer),
  });
  const type = hashed === true ? 'string' : toType({ ...schema, nullable: false });
  return [
    ...(references === undefined
      ? []
      : [
          `@${file.use('Index')}(${quote(getConstraintName('ix', table, column.column))})`,
          `@${file.use('ForeignKey')}(${quote(references)}, { name: ${quote(getConstraintName('fk', table, column.column))} })`,
        ]),
    `@${file.use('Column')}(${quote(entity)}${options === '{}' ? '' : `, ${options}`})`,
    `${propertyName(property)}!: ${type}${nullable && type !== 'unknown' ? ' | null' : ''};`,
  ].join('\n  ');
}

export const getMigrationClass = (resource: Resource, timestamp: number): string =>
  `Create${toPascalCase(resource.table)}${timestamp}`;
export const getMigrationPath = (module: string, { table }: Resource, timestamp: number): string =>
  `src/modules/${module}/migrations/${timestamp}-create-${toKebabCase(table)}.ts`;

export function writeMigration(module: Module, resource: Resource, timestamp: number): string {
  const file = new SourceFile(getMigrationPath(module.name, resource, timestamp));
  const { table, id, columns, versioned } = resource;
  const lines = columns.map((column) => writeTableColumn(column));
  const references = columns.filter(({ references: target }) => target !== undefined);
  const indexes = columns
    .filter(({ indexed, unique }) => indexed && !unique)
    .map(({ column, references: target }) =>
      literal({
        name: getConstraintName('ix', table, column),
        columnNames: target === undefined ? [column, 'id'] : [column],
      }),
    );
  const parts = object({
    name: quote(table),
    columns: `[${[
      `${file.use('idColumn')}(queryRunner, ${quote(getConstraintName('pk', table))}${writeIdOptions(id)})`,
      ...(versioned ? [file.use('versionColumn')] : []),
      ...lines,
    ].join(', ')}]`,
    checks:
      id.kind === 'integer'
        ? `[{ name: ${quote(getConstraintName('ck', table, 'id'))}, expression: '"id" <= 9007199254740991' }]`
        : undefined,
    uniques: list(
      columns
        .filter(({ unique }) => unique)
        .map(({ column }) =>
          literal({ name: getConstraintName('uq', table, column), columnNames: [column] }),
        ),
    ),
    foreignKeys: list(
      references.map(({ column, references: target }) =>
        literal({
          name: getConstraintName('fk', table, column),
          columnNames: [column],
          referencedTableName: target,
          referencedColumnNames: ['id'],
        }),
      ),
    ),
    indices: list(indexes),
  });
  return file.render(`export class ${getMigrationClass(resource, timestamp)} implements ${file.use('MigrationInterface')} {
  async up(queryRunner: ${file.use('QueryRunner')}): Promise<void> {
    await queryRunner.createTable(new ${file.use('Table')}(${parts}));
    await ${file.use('addRevisionTrigger')}(queryRunner, ${quote(table)});
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await ${file.use('dropRevisionTrigger')}(queryRunner, ${quote(table)});
    await queryRunner.dropTable(${quote(table)});
  }
}`);
}

const list = (codes: readonly string[]): string | undefined =>
  codes.length === 0 ? undefined : `[${codes.join(', ')}]`;

function writeTableColumn(column: Column): string {
  const { migration, length } = getColumnType(column);
  return literal({
    name: column.column,
    type: migration,
    ...(length !== undefined && { length: String(length) }),
    ...(column.nullable && { isNullable: true }),
  });
}

/** Writes the draft of a migration for columns that a changed contract added. */
export function writeColumnsMigration(
  module: Module,
  { table }: Resource,
  columns: readonly Column[],
  timestamp: number,
): { path: string; code: string } {
  const names = columns
    .map(({ column }) => toKebabCase(column))
    .join('-and-')
    .slice(0, 60);
  const path = `src/modules/${module.name}/migrations/${timestamp}-add-${names}-to-${toKebabCase(table)}.ts`;
  const file = new SourceFile(path);
  const className = `Add${toPascalCase(toSnakeCase(names))}To${toPascalCase(table)}${timestamp}`;
  file.import('typeorm', 'TableColumn');
  const add = columns.map(
    (column) => `new TableColumn(${writeTableColumn({ ...column, nullable: true })})`,
  );
  const code = file.render(`/**
 * A draft: rows that exist have no value for these columns, so they may be null. Add it to \`migrations\` of the module,
 * and the columns to the entity.
 */
export class ${className} implements ${file.use('MigrationInterface')} {
  async up(queryRunner: ${file.use('QueryRunner')}): Promise<void> {
    await queryRunner.addColumns(${quote(table)}, [${add.join(', ')}]);
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropColumns(${quote(table)}, ${literal(columns.map(({ column }) => column))});
  }
}`);
  return { path, code };
}
