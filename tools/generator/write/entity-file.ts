/** Writes the entity of a resource and the migration of its table: once, then they belong to the team. */
import type { Column, Join, Module, Resource, ResourceId } from '../model.js';
import { toKebabCase, toPascalCase, toSnakeCase } from '../names.js';
import { addImports, getDeclarations } from './imports.js';
import { literal, object, propertyName, quote, toType } from './source.js';

export const getEntityPath = (module: string, { name }: Resource | Join): string =>
  `src/modules/${module}/${toKebabCase(name)}.entity.ts`;

/** The longest name of a constraint or an index that PostgreSQL keeps, in bytes. */
const MAX_NAME_LENGTH = 63;

/** The type of a column in an entity, and the conversion of its values. */
interface ColumnType {
  readonly type: string;
  readonly length?: number | undefined;
  readonly transformer?: 'bigintTransformer' | 'dateTimeTransformer' | 'uuidTransformer' | false;
}

const INT32 = 2 ** 31;

function getColumnType({ schema, hashed, references, join }: Column): ColumnType {
  const { type, format, maxLength, minimum = -Infinity, maximum = Infinity } = schema;
  if (hashed === true) return { type: 'text' };
  if (type === 'boolean') return { type };
  if (type === 'number') return { type: 'double precision' };
  if (type === 'integer') {
    const isSmall = format === 'int32' || (minimum >= -INT32 && maximum < INT32);
    return isSmall && references === undefined
      ? { type }
      : { type: 'bigint', transformer: 'bigintTransformer' };
  }
  // A JSON value.
  if (type !== 'string') {
    const isUuids = join !== undefined && schema.items?.format === 'uuid';
    return { type: 'simple-json', transformer: isUuids && 'uuidTransformer' };
  }
  if (format === 'date-time') return { type: 'bigint', transformer: 'dateTimeTransformer' };
  if (format === 'date') return { type: 'varchar', length: 10 };
  if (format === 'uuid') {
    const transformer = references !== undefined && 'uuidTransformer';
    return { type: 'varchar', length: 36, transformer };
  }
  // An enum may get longer values, and a text without a limit has none here, either.
  return schema.enum !== undefined || maxLength === undefined || maxLength > 10_000
    ? { type: 'text' }
    : { type: 'varchar', length: maxLength };
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
  const { name, table, id, columns, versioned } = resource;
  const checks =
    id.kind === 'integer'
      ? `\n@Check(${quote(getConstraintName('ck', table, 'id'))}, \`"id" <= \${MAX_ID}\`)`
      : '';
  const indexes = columns
    .filter(({ indexed, unique, references }) => indexed && !unique && references === undefined)
    .map(
      ({ property, column }) =>
        `\n@Index(${quote(getConstraintName('ix', table, column))}, [${quote(property)}, 'id'])`,
    );
  const uniques = columns
    .filter(({ unique }) => unique)
    .map(
      ({ property, column }) =>
        `\n@Unique(${quote(getConstraintName('uq', table, column))}, [${quote(property)}])`,
    );
  const properties = columns.map((column) => writeColumn(table, column));
  const code = `/** A row of the table \`${table}\`. */
@Entity(${quote(table)})${checks}${uniques.join('')}${indexes.join('')}
export class ${name}Entity {
  @IdColumn(${quote(getConstraintName('pk', table))}${writeIdOptions(id)})
  id!: ${id.kind === 'integer' ? 'number' : 'string'};
${versioned ? `\n  @VersionColumn()\n  version!: number;\n` : ''}
  ${properties.join('\n\n  ')}
}`;
  return addImports(getEntityPath(module.name, resource), code, getDeclarations(module));
}

/** Writes the entity of the references of an array. */
export function writeJoin(module: Module, join: Join): string {
  const { name, table, columns } = join;
  const code = `/** A row of the table \`${table}\`. */
@Entity(${quote(table)})
export class ${name}Entity {
  ${columns.map((column) => writeColumn(table, column, 'PrimaryColumn')).join('\n\n  ')}
}`;
  return addImports(getEntityPath(module.name, join), code);
}

function writeColumn(
  table: string,
  column: Column,
  decorator: 'Column' | 'PrimaryColumn' = 'Column',
): string {
  const { property, references, nullable, schema, hashed, assigned, cascades } = column;
  const { type, length, transformer } = getColumnType(column);
  const isKept = nullable && assigned !== undefined && assigned !== 'now on changes';
  const options = object({
    // Only this form has the option `update`.
    type: isKept ? quote(type) : undefined,
    name: column.column === property ? undefined : quote(column.column),
    length: length === undefined ? undefined : String(length),
    nullable: nullable ? 'true' : undefined,
    // A replacement, which lacks it, keeps it.
    update: isKept ? 'false' : undefined,
    transformer: transformer === false ? undefined : transformer,
    primaryKeyConstraintName:
      decorator === 'Column' ? undefined : quote(getConstraintName('pk', table)),
  });
  const key = object({
    name: quote(getConstraintName('fk', table, column.column)),
    onDelete: cascades === true ? quote('CASCADE') : undefined,
  });
  const valueType = toType(
    hashed === true ? { type: 'string', nullable } : { ...schema, nullable },
  );
  return [
    ...(references === undefined || cascades === true
      ? []
      : [`@Index(${quote(getConstraintName('ix', table, column.column))})`]),
    ...(references === undefined ? [] : [`@ForeignKey(${quote(references)}, ${key})`]),
    `@${decorator}(${[...(isKept ? [] : [quote(type)]), ...(options === '{}' ? [] : [options])].join(', ')})`,
    `${propertyName(property)}!: ${valueType};`,
  ].join('\n  ');
}

export const getMigrationClass = (resource: Resource, timestamp: number): string =>
  `Create${toPascalCase(resource.table)}${timestamp}`;
export const getMigrationPath = (module: string, { table }: Resource, timestamp: number): string =>
  `src/modules/${module}/migrations/${timestamp}-create-${toKebabCase(table)}.ts`;

/** Writes the statements that create a table. */
function writeTable(
  { table, columns }: Resource | Join,
  own: readonly string[],
  checks?: string,
): string {
  const primary = own.length === 0 ? getConstraintName('pk', table) : undefined;
  const parts = object({
    name: quote(table),
    columns: `[${[...own, ...columns.map((column) => writeTableColumn(column, primary))].join(', ')}]`,
    checks,
    uniques: list(
      columns
        .filter(({ unique }) => unique)
        .map(({ column }) =>
          literal({ name: getConstraintName('uq', table, column), columnNames: [column] }),
        ),
    ),
    foreignKeys: list(
      columns
        .filter(({ references }) => references !== undefined)
        .map(({ column, references, cascades }) =>
          literal({
            name: getConstraintName('fk', table, column),
            columnNames: [column],
            referencedTableName: references,
            referencedColumnNames: ['id'],
            ...(cascades === true && { onDelete: 'CASCADE' }),
          }),
        ),
    ),
    indices: list(
      columns
        .filter(({ indexed, unique }) => indexed && !unique)
        .map(({ column, references }) =>
          literal({
            name: getConstraintName('ix', table, column),
            columnNames: references === undefined ? [column, 'id'] : [column],
          }),
        ),
    ),
  });
  return `await queryRunner.createTable(new Table(${parts}));`;
}

/** Writes the statements that create and drop the tables of the references of columns. */
function writeJoins(columns: readonly Column[]): { up: string; down: string } {
  const joins = columns.flatMap(({ join }) => join ?? []);
  return {
    up: joins.map((join) => writeTable(join, [])).join('\n    '),
    down: joins.map(({ table }) => `await queryRunner.dropTable(${quote(table)});`).join('\n    '),
  };
}

export function writeMigration(module: Module, resource: Resource, timestamp: number): string {
  const { table, id, versioned, columns } = resource;
  const own = [
    `idColumn(queryRunner, ${quote(getConstraintName('pk', table))}${writeIdOptions(id)})`,
    ...(versioned ? ['versionColumn'] : []),
  ];
  const checks =
    id.kind === 'integer'
      ? `[{ name: ${quote(getConstraintName('ck', table, 'id'))}, expression: '"id" <= 9007199254740991' }]`
      : undefined;
  const joins = writeJoins(columns);
  const code = `export class ${getMigrationClass(resource, timestamp)} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    ${writeTable(resource, own, checks)}
    await addRevisionTrigger(queryRunner, ${quote(table)});
    ${joins.up}
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    ${joins.down}
    await dropRevisionTrigger(queryRunner, ${quote(table)});
    await queryRunner.dropTable(${quote(table)});
  }
}`;
  return addImports(getMigrationPath(module.name, resource, timestamp), code);
}

const list = (codes: readonly string[]): string | undefined =>
  codes.length === 0 ? undefined : `[${codes.join(', ')}]`;

/** @param primary the constraint of the primary key that the column is a part of */
function writeTableColumn(column: Column, primary?: string): string {
  const { type, length } = getColumnType(column);
  return literal({
    name: column.column,
    type: type === 'simple-json' ? 'text' : type,
    ...(length !== undefined && { length: String(length) }),
    ...(column.nullable && { isNullable: true }),
    ...(primary !== undefined && { isPrimary: true, primaryKeyConstraintName: primary }),
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
  const className = `Add${toPascalCase(toSnakeCase(names))}To${toPascalCase(table)}${timestamp}`;
  const add = columns.map(
    (column) => `new TableColumn(${writeTableColumn({ ...column, nullable: true })})`,
  );
  const joins = writeJoins(columns);
  const code = `/**
 * A draft: rows that exist have no value for these columns, so they may be null. Add it to \`migrations\` of the module,
 * and the columns to the entity.
 */
export class ${className} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.addColumns(${quote(table)}, [${add.join(', ')}]);
    ${joins.up}
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    ${joins.down}
    await queryRunner.dropColumns(${quote(table)}, ${literal(columns.map(({ column }) => column))});
  }
}`;
  return { path, code: addImports(path, code) };
}
