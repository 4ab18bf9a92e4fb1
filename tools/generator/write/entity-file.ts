/** Writes the entity of a resource and the migration of its table: once, then they belong to the team. */
import type { Column, Join, Module, Resource, ResourceId, Schema } from '../model.js';
import { toKebabCase, toPascalCase, toSnakeCase } from '../names.js';
import { getDeclarations, type SourceFile, toFile } from './imports.js';
import { call, code, type Code, ifAny, propertyName, toType } from './source.js';

/** The longest name of a constraint or an index that PostgreSQL keeps, in bytes. */
const MAX_NAME_LENGTH = 63;

/** The type of a column in an entity, and the conversion of its values. */
interface ColumnType {
  readonly type: string;
  readonly length?: number;
  readonly transformer?: Code | undefined;
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
      : { type: 'bigint', transformer: code('bigintTransformer') };
  }
  const uuids = code('uuidTransformer');
  // A JSON value.
  if (type !== 'string') {
    const isUuids = join !== undefined && schema.items?.format === 'uuid';
    return { type: 'simple-json', transformer: isUuids ? uuids : undefined };
  }
  if (format === 'date-time') return { type: 'bigint', transformer: code('dateTimeTransformer') };
  if (format === 'date') return { type: 'varchar', length: 10 };
  if (format === 'uuid')
    return {
      type: 'varchar',
      length: 36,
      transformer: references === undefined ? undefined : uuids,
    };
  // An enum may get longer values, and a text without a limit has none here, either.
  return schema.enum !== undefined || maxLength === undefined || maxLength > 10_000
    ? { type: 'text' }
    : { type: 'varchar', length: maxLength };
}

const getConstraintName = (
  kind: 'pk' | 'fk' | 'uq' | 'ix' | 'ck',
  table: string,
  ...columns: string[]
): string => [kind, table, ...columns].join('_').slice(0, MAX_NAME_LENGTH);

/** The options of `@IdColumn` and `idColumn`. */
const toIdOptions = ({ kind, by }: ResourceId): object | undefined =>
  ifAny({
    type: kind === 'integer' ? undefined : kind,
    byClient: by === 'client' ? true : undefined,
    length: kind === 'text' ? 255 : undefined,
  });

const getEntityPath = (module: Module, { name }: Resource | Join): string =>
  `src/modules/${module.name}/${toKebabCase(name)}.entity.ts`;

/** The columns of a unique constraint: also those of the path above a key, which another parent may have, too. */
function getUnique(resource: Resource | Join, column: Column): readonly Column[] {
  if (column.isKey !== true || !('owners' in resource)) return [column];
  const { owners, columns } = resource;
  return [
    ...columns.filter(({ property }) => owners.some((each) => each.property === property)),
    column,
  ];
}

export function writeEntity(module: Module, resource: Resource): SourceFile {
  const { name, table, id, columns, versioned } = resource;
  const checked = code('`"id" <= ${MAX_ID}`');
  const uniques = columns.filter(({ unique }) => unique);
  const indexed = columns.filter(
    ({ indexed: isIndexed, unique, references }) =>
      isIndexed && !unique && references === undefined,
  );
  const decorators = [
    call('@Entity', table),
    ...(id.kind === 'integer'
      ? [call('@Check', getConstraintName('ck', table, 'id'), checked)]
      : []),
    ...uniques.map((column) =>
      call(
        '@Unique',
        getConstraintName('uq', table, column.column),
        getUnique(resource, column).map(({ property }) => property),
      ),
    ),
    ...indexed.map(({ property, column }) =>
      call('@Index', getConstraintName('ix', table, column), [property, 'id']),
    ),
  ];
  const properties = [
    `${call('@IdColumn', getConstraintName('pk', table), toIdOptions(id))}
  id!: ${id.kind === 'integer' ? 'number' : 'string'};`,
    ...(versioned ? ['@VersionColumn()\n  version!: number;'] : []),
    ...columns.map((column) => writeColumn(table, column)),
  ];
  const text = `/** A row of the table \`${table}\`. */
${decorators.join('\n')}
export class ${name}Entity {
  ${properties.join('\n\n  ')}
}`;
  return toFile(getEntityPath(module, resource), text, getDeclarations(module));
}

/** Writes the entity of the references of an array. */
export function writeJoin(module: Module, join: Join): SourceFile {
  const { name, table, columns } = join;
  const primary = getConstraintName('pk', table);
  const text = `/** A row of the table \`${table}\`. */
${call('@Entity', table)}
export class ${name}Entity {
  ${columns.map((column) => writeColumn(table, column, primary)).join('\n\n  ')}
}`;
  return toFile(getEntityPath(module, join), text);
}

/** @param primary the constraint of the primary key that the column is a part of */
function writeColumn(table: string, column: Column, primary?: string): string {
  const { property, references, nullable, schema, hashed, cascades } = column;
  const { type, length, transformer } = getColumnType(column);
  const options = {
    name: column.column === property ? undefined : column.column,
    length,
    nullable: nullable ? true : undefined,
    transformer,
    primaryKeyConstraintName: primary,
  };
  const decorator = primary === undefined ? '@Column' : '@PrimaryColumn';
  const key = {
    name: getConstraintName('fk', table, column.column),
    onDelete: cascades === true ? 'CASCADE' : undefined,
  };
  const stored: Schema = hashed === true ? { type: 'string' } : schema;
  return [
    ...(references === undefined || cascades === true
      ? []
      : [call('@Index', getConstraintName('ix', table, column.column))]),
    ...(references === undefined ? [] : [call('@ForeignKey', references, key)]),
    call(decorator, type, ifAny(options)),
    `${propertyName(property)}!: ${toType({ ...stored, nullable })};`,
  ].join('\n  ');
}

/** The name of a migration in the list of its module. */
export const getMigrationClass = ({ table }: Resource, timestamp: number): string =>
  `Create${toPascalCase(table)}${timestamp}`;

export const getMigrationPath = (module: string, { table }: Resource, timestamp: number): string =>
  `src/modules/${module}/migrations/${timestamp}-create-${toKebabCase(table)}.ts`;

/** Writes the statement that creates a table. */
function writeTable(resource: Resource | Join, own: readonly Code[], check?: object): string {
  const { table, columns } = resource;
  const primary = own.length === 0 ? getConstraintName('pk', table) : undefined;
  const toConstraint = (
    kind: 'fk' | 'uq' | 'ix',
    column: string,
    columnNames = [column],
  ): object => ({ name: getConstraintName(kind, table, column), columnNames });
  const parts = {
    name: table,
    columns: [...own, ...columns.map((column) => toTableColumn(column, primary))],
    checks: check && [check],
    uniques: ifAny(
      columns
        .filter(({ unique }) => unique)
        .map((each) =>
          toConstraint(
            'uq',
            each.column,
            getUnique(resource, each).map(({ column }) => column),
          ),
        ),
    ),
    foreignKeys: ifAny(
      columns.flatMap(({ column, references, cascades }) =>
        references === undefined
          ? []
          : {
              ...toConstraint('fk', column),
              referencedTableName: references,
              referencedColumnNames: ['id'],
              onDelete: cascades === true ? 'CASCADE' : undefined,
            },
      ),
    ),
    indices: ifAny(
      columns
        .filter(
          ({ indexed, unique, references }) => indexed && (!unique || references !== undefined),
        )
        .map(({ column, references }) =>
          toConstraint('ix', column, references === undefined ? [column, 'id'] : undefined),
        ),
    ),
  };
  return `await queryRunner.createTable(new ${call('Table', parts)});`;
}

/** Writes the statements that create and drop the tables of the references of columns. */
function writeJoins(columns: readonly Column[]): { up: string; down: string } {
  const joins = columns.flatMap(({ join }) => join ?? []);
  return {
    up: joins.map((join) => writeTable(join, [])).join('\n    '),
    down: joins.map(({ table }) => `await ${call('queryRunner.dropTable', table)};`).join('\n    '),
  };
}

export function writeMigration(module: Module, resource: Resource, timestamp: number): SourceFile {
  const { table, id, versioned, columns } = resource;
  const primary = getConstraintName('pk', table);
  const own = [
    code(call('idColumn', code('queryRunner'), primary, toIdOptions(id))),
    ...(versioned ? [code('versionColumn')] : []),
  ];
  const checkName = getConstraintName('ck', table, 'id');
  const check = { name: checkName, expression: '"id" <= 9007199254740991' };
  const joins = writeJoins(columns);
  const text = `export class ${getMigrationClass(resource, timestamp)} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    ${writeTable(resource, own, id.kind === 'integer' ? check : undefined)}
    await ${call('addRevisionTrigger', code('queryRunner'), table)};
    ${joins.up}
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    ${joins.down}
    await ${call('dropRevisionTrigger', code('queryRunner'), table)};
    await ${call('queryRunner.dropTable', table)};
  }
}`;
  return toFile(getMigrationPath(module.name, resource, timestamp), text);
}

/** @param primary the constraint of the primary key that the column is a part of */
function toTableColumn(column: Column, primary?: string): object {
  const { type, length } = getColumnType(column);
  return {
    name: column.column,
    type: type === 'simple-json' ? 'text' : type,
    length: length?.toString(),
    isNullable: column.nullable ? true : undefined,
    isPrimary: primary === undefined ? undefined : true,
    primaryKeyConstraintName: primary,
  };
}

/** Writes the draft of a migration for columns that a changed contract added. */
export function writeColumnsMigration(
  module: Module,
  { table }: Resource,
  columns: readonly Column[],
  timestamp: number,
): SourceFile {
  const names = columns
    .map(({ column }) => toKebabCase(column))
    .join('-and-')
    .slice(0, 60);
  const path = `src/modules/${module.name}/migrations/${timestamp}-add-${names}-to-${toKebabCase(table)}.ts`;
  const className = `Add${toPascalCase(toSnakeCase(names))}To${toPascalCase(table)}${timestamp}`;
  const added = columns.map((column) =>
    code(`new ${call('TableColumn', toTableColumn({ ...column, nullable: true }))}`),
  );
  const dropped = columns.map(({ column }) => column);
  const joins = writeJoins(columns);
  const text = `/**
 * A draft: rows that exist have no value for these columns, so they may be null. Add it to \`migrations\` of the module,
 * and the columns to the entity.
 */
export class ${className} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await ${call('queryRunner.addColumns', table, added)};
    ${joins.up}
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    ${joins.down}
    await ${call('queryRunner.dropColumns', table, dropped)};
  }
}`;
  return toFile(path, text);
}
