/** Writes the test of a module: once, then it belongs to the team. */
import type { Column, CreateOperation, Module, Owner, Resource, Schema } from '../model.js';
import { getParent, getReferenced, getUnchecked } from '../model.js';
import { toKebabCase } from '../names.js';
import { isText } from '../texts.js';
import { getNames, type SourceFile, toFile } from './imports.js';
import { call, code, type Code, ifAny, literal, spread } from './source.js';
import { getCreate, getNumbers, toInvalid, toRow } from './samples.js';

/**
 * @param routes those of other modules
 * @param only the resource that is tested, in a file of its own, by default all of them
 * @returns undefined if nothing can be tested
 */
export function writeTest(
  module: Module,
  routes: ReadonlySet<string> = new Set(),
  only?: Resource,
): SourceFile | undefined {
  const resources = only === undefined ? module.resources : [only];
  const tests = resources.flatMap((each) => writeResource(module, each, routes) ?? []);
  const start = `const app = await startApp();\nafterAll(() => app.stop());`;
  const contract =
    module.file === undefined || only !== undefined
      ? []
      : [
          `${call('describeContract', code('app'), module.file, ...(module.prefix === '' ? [] : [module.prefix]))};`,
        ];
  if (resources.length === 0 || contract.length + tests.length === 0) return undefined;
  return toFile(
    `test/${module.name}${only ? `-${toKebabCase(only.table)}` : ''}.databases.test.ts`,
    [start, ...contract, ...tests].join('\n\n'),
  );
}

function writeResource(
  module: Module,
  resource: Resource,
  routes: ReadonlySet<string>,
): string | undefined {
  const {
    request,
    create: { path, body },
    id,
    columns,
    owners,
  } = resource;
  const create = getCreate(module, resource);
  const key = getKey(module, resource, create);
  // Nothing tells the id that the service has assigned.
  if (key === undefined) return undefined;
  const sent = request.properties.filter(({ name }) => name !== id.property);
  const invalid = toInvalid(sent, body?.isForm === true);
  const references = getReferences(resource);
  const missing = references.map((column) => [column.name, [toMissing(column)]]);
  const paths = references.map((column) => [
    column.name,
    findPath(module, routes, getReferenced(column)!),
  ]);
  const options = {
    create: toFunction(resource, 1),
    other: toFunction(resource, 2),
    invalid: ifAny({ ...invalid, ...Object.fromEntries(missing) }),
    references: ifAny(Object.fromEntries(paths)),
    unique: ifAny(columns.filter(({ unique }) => unique).map(({ name }) => [name])),
    shown: ifAny(getShown(resource, key)),
    id: key === 'id' ? undefined : key,
    envelope: create.sent.property,
    parent: owners.length > 0 ? toParent(owners) : undefined,
  };
  return `await ${call('describeResource', code('app'), path, options)};`;
}

/** A function that returns the parameters of a path, after it has inserted what the path is below. */
function toParent(owners: readonly Owner[]): Code {
  const parent = getParent(owners);
  const above = parent?.resource.owners ?? [];
  const unchecked = getUnchecked(owners).map(({ parameter, kind }) => [
    parameter,
    code(
      { integer: 'n', uuid: '`b1f1cbe4-2d9a-4c39-8f3b-7a53f2e60c1${n}`', text: '`a${n}`' }[kind],
    ),
  ]);
  const values = Object.fromEntries(unchecked) as Record<string, unknown>;
  const parameter = unchecked.length === 0 ? '()' : '(n)';
  if (parent === undefined) return code(`${parameter} => Promise.resolve(${literal(values)})`);
  if (above.length === 0) values[parent.parameter] = insert(parent.resource.table);
  else {
    const names = above.map(({ property }, index) => [owners[index]!.parameter, property]);
    const properties = { ...Object.fromEntries(names), [parent.parameter]: 'id' };
    const row = call('insertPath', code('app.dataSource'), parent.resource.table, properties);
    Object.assign(values, spread(code(`(await ${row})`)));
  }
  return code(`async ${parameter} => (${literal(values)})`);
}

/** The property that the path of a resource ends with; undefined if clients do not know it. */
function getKey(
  { operations }: Module,
  resource: Resource,
  { dto }: CreateOperation,
): string | undefined {
  const { id, columns } = resource;
  const column = columns.find(({ property }) =>
    operations.some(
      ({ implementation }) =>
        'key' in implementation &&
        implementation.resource === resource &&
        implementation.key.in === 'path' &&
        implementation.key.property === property,
    ),
  );
  if (column !== undefined) return column.name;
  return dto === undefined && id.by === 'service' ? undefined : id.property;
}

/** What responses have besides the body, and what they lack of it. */
function getShown({ columns, id, owners, request }: Resource, key: string): Record<string, Code> {
  const names = columns
    .filter(
      ({ assigned, hidden, property }) =>
        hidden !== true &&
        (assigned !== undefined || owners.some((each) => each.property === property)),
    )
    .map(({ name }) => name);
  if (id.property !== undefined && id.property !== key) names.push(id.property);
  const unknown = columns.filter(
    ({ assigned, hidden, property, name }) =>
      assigned === undefined &&
      hidden !== true &&
      !owners.some((each) => each.property === property) &&
      !request.properties.some((each) => each.name === name),
  );
  const hidden = columns.filter((column) => column.hidden === true && column.hashed !== true);
  return {
    ...Object.fromEntries(names.map((name) => [name, code('expect.anything()')])),
    ...Object.fromEntries(unknown.map(({ name }) => [name, code('null')])),
    ...Object.fromEntries(hidden.map(({ name }) => [name, code('undefined')])),
  };
}

/** Inserts a row, and returns its id. */
const insert = (table: string): Code =>
  code(`await ${call('insertRow', code('app.dataSource'), table)}`);

/** The columns whose values a request has, and that refer to rows of other tables. */
const getReferences = ({ request, columns, owners }: Resource): Column[] =>
  columns.filter(
    ({ name, property, join, references }) =>
      (join ?? references) !== undefined &&
      !owners.some((each) => each.property === property) &&
      request.properties.some((each) => each.name === name),
  );

/** A reference to a row that does not exist. */
function toMissing({ schema, join }: Column): unknown {
  const { type } = join === undefined ? schema : schema.items!;
  const id = type === 'integer' ? Number.MAX_SAFE_INTEGER : '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70';
  return join === undefined ? id : [id];
}

/** The path of the collection of a table, if an operation deletes its rows. */
function findPath(
  { operations }: Module,
  routes: ReadonlySet<string>,
  table: string,
): string | undefined {
  const own = operations.find(
    ({ implementation: each }) =>
      each.kind === 'delete' && each.resource.table === table && each.owners.length === 0,
  );
  const end = `/${toKebabCase(table)}/{}`;
  const route = [...routes].find((each) => each.startsWith('delete ') && each.endsWith(end));
  return (own?.path ?? route?.slice('delete '.length))
    ?.replace(/\{\w*\}\/?$/, '')
    .replace(/\/$/, '');
}

/** A function that returns a body; the values of unique properties depend on the number that it gets. */
function toFunction(resource: Resource, seed: number): Code {
  const body = literal(toBody(resource, seed));
  const parameter = getNames(body).includes('n') ? 'n' : '';
  return code(`${body.includes('await ') ? 'async ' : ''}(${parameter}) => (${body})`);
}

/** The properties whose values no two rows share. */
function getUnique({ id, columns }: Resource): string[] {
  const unique = columns.filter((column) => column.unique).map(({ name }) => name);
  return id.by === 'client' ? [...new Set([id.property!, ...unique])] : unique;
}

function toBody(resource: Resource, seed: number): object {
  const unique = getUnique(resource);
  const { properties } = resource.request;
  const row = Object.entries(toRow(resource, seed, insert));
  return Object.fromEntries(
    row.map(([name, value]) => {
      const schema = properties.find((each) => each.name === name);
      return [name, schema && unique.includes(name) ? toUnique(value, schema) : value];
    }),
  );
}

/** A value that depends on `n`, if the schema accepts one: a text ends with `n`, as does the name in an address. */
function toUnique(value: unknown, schema: Schema): unknown {
  if (schema.enum !== undefined) return value;
  if (typeof value === 'number') return toUniqueNumber(schema);
  const [, text, domain = ''] = /^([\w :/.-]+)(@[\w.]+)?$/.exec(String(value)) ?? [];
  if (typeof value !== 'string' || text === undefined) return value;
  const appended = { start: `${text.slice(0, 20)}-`, digits: 1 };
  const replaced = { start: text.slice(0, -3), digits: 3 };
  const found = [appended, replaced].find(({ start, digits }) =>
    [0, 999].every((n) => isText(schema, `${start}${String(n).padStart(digits, '0')}${domain}`)),
  );
  if (found === undefined) return value;
  const end = found === appended ? 'n' : `String(n).padStart(${found.digits}, '0')`;
  return code(`\`${found.start}\${${end}}${domain}\``);
}

function toUniqueNumber(schema: Schema): unknown {
  const { first, step, highest } = getNumbers(schema);
  if (first + step > highest) return first;
  // Products of a fraction are not exact, such as 0.1 * 3.
  const distance = Number.isInteger(1 / step) ? 1 : step;
  const product = distance === 1 ? 'n' : `${distance} * n`;
  return code(first === 0 ? product : `${first} + ${product}`);
}
