/** Writes the entity of a resource and its migration once; then they belong to the team. */
import { type Column, isScalar, type Module, type Resource } from '../model.js';
import { toKebabCase, toPascalCase } from '../names.js';
import { toType } from '../types.js';
import { getApiPath, getFolder } from './api-file.js';
import { call, code, type Code, ifAny, propertyName, type SourceFile, toFile } from './source.js';

/** The type of a column in an entity, and the conversion of its values. */
interface ColumnType {
  readonly type: string;
  readonly length?: number;
  readonly transformer?: Code;
}

const INT32 = 2 ** 31;

function getColumnType({ schema }: Column): ColumnType {
  const { type, format, maxLength, minimum = -Infinity, maximum = Infinity, references } = schema;
  if (type === 'boolean') return { type };
  if (type === 'number') return { type: 'double precision' };
  if (type === 'integer') {
    const isSmall = format === 'int32' || (minimum >= -INT32 && maximum < INT32);
    return isSmall && references === undefined
      ? { type }
      : { type: 'bigint', transformer: code('bigintTransformer') };
  }
  if (type !== 'string') return { type: 'simple-json' };
  if (format === 'date-time') return { type: 'bigint', transformer: code('dateTimeTransformer') };
  if (format === 'date') return { type: 'varchar', length: 10 };
  if (format === 'uuid')
    return { type: 'varchar', length: 36, transformer: code('uuidTransformer') };
  // A changed contract may add longer values to an enum.
  return schema.enum !== undefined || maxLength === undefined || maxLength > 10_000
    ? { type: 'text' }
    : { type: 'varchar', length: Math.max(maxLength, 1) };
}

/** Returns the TypeScript type of a column. */
export function getEntityType({ schema, isMixed, nullable }: Column): string {
  if (isMixed && !isScalar(schema)) return 'unknown';
  return toType({ ...schema, ...(isMixed && { enum: undefined }), nullable });
}

const toName = (kind: string, table: string, ...columns: string[]): string =>
  [kind, table, ...columns].join('_');

/** Returns the table that a column refers to: the nearest parent's, or that of `x-references`. */
function getReference({ owners }: Resource, { property, schema }: Column): string | undefined {
  const parent = owners.at(-1);
  return parent?.property === property ? parent.resource.table : schema.references;
}

/** Returns the filter columns that need an index: foreign keys have one already. */
const getFilters = (resource: Resource): Column[] =>
  resource.columns.filter((each) => each.isFilter && getReference(resource, each) === undefined);

/** Returns the options of `@IdColumn` and `idColumn`. */
const toIdOptions = ({ id: { kind, byClient, length } }: Resource): object | undefined =>
  ifAny({
    type: kind === 'integer' ? undefined : kind,
    byClient: byClient ? true : undefined,
    length,
  });

const getPath = (module: Module, { name }: Resource): string =>
  `${getFolder(module.name)}/${toKebabCase(name)}.entity.ts`;

export function writeEntity(module: Module, resource: Resource): SourceFile {
  const { name, table, id, columns } = resource;
  const decorators = [
    call('@Entity', table),
    ...columns
      .filter(({ schema }) => schema.unique)
      .map((each) => call('@Unique', toName('uq', table, each.column), [each.property])),
    ...getFilters(resource).map((each) =>
      call('@Index', toName('ix', table, each.column), [each.property, 'id']),
    ),
  ];
  const check = id.kind === 'integer' ? toName('ck', table, 'id') : undefined;
  const properties = [
    `${call('@IdColumn', toName('pk', table), ifAny({ ...toIdOptions(resource), check }))}
  id!: ${id.kind === 'integer' ? 'number' : 'string'};`,
    ...columns.map((column) => writeColumn(resource, column)),
  ];
  const text = `/** A row of the table \`${table}\`. */
${decorators.join('\n')}
export class ${name}Entity {
  ${properties.join('\n\n  ')}
}`;
  return toFile(getPath(module, resource), text, getDeclarations(module));
}

/** Returns the files of a module by the names that they declare. */
export function getDeclarations(module: Module): Record<string, string> {
  const { name, classes, operations, resources } = module;
  const api = getApiPath(name).replace(/ts$/, 'js');
  const prefix = toPascalCase(name);
  return {
    ...Object.fromEntries(
      operations.map((each) => [`${toPascalCase(each.name)}Query`, `type:${api}`]),
    ),
    ...Object.fromEntries(classes.map((dto) => [dto.name, `type:${api}`])),
    ...Object.fromEntries(
      resources.map((each) => [`${each.name}Entity`, getPath(module, each).replace(/ts$/, 'js')]),
    ),
    [`${prefix}Api`]: api,
    [`${prefix}Controller`]: api,
    [`${prefix}Service`]: `${getFolder(name)}/${name}.service.js`,
  };
}

function writeColumn(resource: Resource, column: Column): string {
  const { table } = resource;
  const { type, length, transformer } = getColumnType(column);
  const options = {
    name: column.column === column.property ? undefined : column.column,
    length,
    nullable: column.nullable ? true : undefined,
    transformer,
  };
  const reference = getReference(resource, column);
  return [
    ...(reference === undefined
      ? []
      : [
          call('@Index', toName('ix', table, column.column)),
          call('@ForeignKey', reference, { name: toName('fk', table, column.column) }),
        ]),
    call('@Column', type, ifAny(options)),
    `${propertyName(column.property)}!: ${getEntityType(column)};`,
  ].join('\n  ');
}

/** The name of a migration in the list of its module. */
export const getMigrationClass = ({ table }: Resource, timestamp: number): string =>
  `Create${toPascalCase(table)}${timestamp}`;

export const getMigrationPath = (module: string, { table }: Resource, timestamp: number): string =>
  `${getFolder(module)}/migrations/${timestamp}-create-${toKebabCase(table)}.ts`;

export function writeMigration(module: Module, resource: Resource, timestamp: number): SourceFile {
  const { table, id, columns } = resource;
  const toConstraint = (kind: string, { column }: Column, ...others: string[]): object => ({
    name: toName(kind, table, column),
    columnNames: [column, ...others],
  });
  const references = columns.filter((each) => getReference(resource, each) !== undefined);
  const check = { name: toName('ck', table, 'id'), expression: '"id" <= 9007199254740991' };
  const parts = {
    name: table,
    columns: [
      code(call('idColumn', code('queryRunner'), toName('pk', table), toIdOptions(resource))),
      ...columns.map(toTableColumn),
    ],
    checks: id.kind === 'integer' ? [check] : undefined,
    uniques: ifAny(
      columns.filter(({ schema }) => schema.unique).map((each) => toConstraint('uq', each)),
    ),
    foreignKeys: ifAny(
      references.map((each) => ({
        ...toConstraint('fk', each),
        referencedTableName: getReference(resource, each),
        referencedColumnNames: ['id'],
      })),
    ),
    indices: ifAny([
      ...references.map((each) => toConstraint('ix', each)),
      ...getFilters(resource).map((each) => toConstraint('ix', each, 'id')),
    ]),
  };
  const text = `export class ${getMigrationClass(resource, timestamp)} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(new ${call('Table', parts)});
    await ${call('addRevisionTrigger', code('queryRunner'), table)};
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await ${call('dropRevisionTrigger', code('queryRunner'), table)};
    await ${call('queryRunner.dropTable', table)};
  }
}`;
  return toFile(getMigrationPath(module.name, resource, timestamp), text);
}

function toTableColumn(column: Column): object {
  const { type, length } = getColumnType(column);
  return {
    name: column.column,
    type: type === 'simple-json' ? 'text' : type,
    length: length?.toString(),
    isNullable: column.nullable ? true : undefined,
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
  const path = `${getFolder(module.name)}/migrations/${timestamp}-add-${names}-to-${toKebabCase(table)}.ts`;
  const className = `Add${toPascalCase(names)}To${toPascalCase(table)}${timestamp}`;
  const added = columns.map((column) =>
    code(`new ${call('TableColumn', toTableColumn({ ...column, nullable: true }))}`),
  );
  const text = `/**
 * A draft: rows that exist have no value for these columns, so they may be null. Add it to \`migrations\` of the module,
 * and the columns to the entity.
 */
export class ${className} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await ${call('queryRunner.addColumns', table, added)};
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await ${call(
      'queryRunner.dropColumns',
      table,
      columns.map(({ column }) => column),
    )};
  }
}`;
  return toFile(path, text);
}
