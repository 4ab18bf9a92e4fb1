/** Writes the test of a module: once, then it belongs to the team. */
import type { Column, Module, Parent, Resource } from '../model.js';
import { toKebabCase } from '../names.js';
import { addImports, getNames } from './imports.js';
import { literal, object, propertyName, quote } from './source.js';
import { toInvalid, toSample } from './samples.js';

export const getTestPath = (module: string): string => `test/${module}.databases.test.ts`;

/**
 * @param routes those of other modules
 * @returns undefined if nothing can be tested
 */
export function writeTest(
  module: Module,
  routes: ReadonlySet<string> = new Set(),
): string | undefined {
  const code = module.resources.map((resource) => writeResource(module, resource, routes));
  if (code.every((each) => each === '')) return undefined;
  const start = `const app = await startApp();\nafterAll(() => app.stop());`;
  return addImports(getTestPath(module.name), [start, ...code].join('\n\n'));
}

function writeResource(module: Module, resource: Resource, routes: ReadonlySet<string>): string {
  const { create, request, id, parent } = resource;
  const key = getKey(module, resource);
  // Nothing tells the id that the service has assigned.
  if (key === undefined) return '';
  const unique = getUnique(resource);
  const invalid = toInvalid({
    ...request,
    properties: request.properties.filter(({ name }) => name !== id.property),
  });
  const references = getReferences(resource);
  const values = [
    ...(invalid === undefined ? [] : [[invalid.property, [invalid.value]]]),
    ...references.map((column) => [column.name, [toMissing(column)]]),
  ] as [string, unknown[]][];
  const deletable = references.flatMap((column) => {
    const path = findPath(module, routes, getTable(column));
    return path === undefined ? [] : [[column.name, path] as const];
  });
  const shown = getShown(resource, key);
  return `await describeResource(app, ${quote(create.path)}, ${object({
    create: writeSample(resource, 1),
    other: writeSample(resource, 2),
    invalid: values.length === 0 ? undefined : literal(Object.fromEntries(values)),
    references: deletable.length === 0 ? undefined : literal(Object.fromEntries(deletable)),
    unique: unique.length === 0 ? undefined : literal(unique.map((property) => [property])),
    shown: shown === '{}' ? undefined : shown,
    id: key === 'id' ? undefined : quote(key),
    parent: parent && writeParent(parent),
  })});`;
}

/** The property that the path of a resource ends with; undefined if clients do not know it. */
function getKey({ operations }: Module, resource: Resource): string | undefined {
  const { create, id, columns } = resource;
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
  return create.success.schema === undefined && id.by === 'service' ? undefined : id.property;
}

/** What responses have besides the body, and what they lack of it. */
function getShown({ columns, id }: Resource, key: string): string {
  const assigned = columns.filter(
    (column) => column.assigned !== undefined && column.hidden !== true,
  );
  const names = assigned.map(({ name }) => name);
  if (id.property !== undefined && id.property !== key) names.push(id.property);
  const hidden = columns.filter((column) => column.hidden === true && column.hashed !== true);
  return object({
    ...Object.fromEntries(names.map((name) => [name, 'expect.anything()'])),
    ...Object.fromEntries(hidden.map(({ name }) => [name, 'undefined'])),
  });
}

/** A function that creates what the path of a resource is below. */
const writeParent = ({ parameter, resource }: Parent): string =>
  `async () => ({ ${propertyName(parameter)}: ${writeReference(resource.table)} })`;

/** Code that inserts a row, and returns its id. */
const writeReference = (table: string): string =>
  `await insertRow(app.dataSource, ${quote(table)})`;

/** The columns whose values a request has, and that refer to rows of other tables. */
const getReferences = ({ request, columns, parent }: Resource): Column[] =>
  columns.filter(
    ({ name, property, join, references }) =>
      (join ?? references) !== undefined &&
      property !== parent?.property &&
      request.properties.some((each) => each.name === name),
  );

const getTable = ({ join, references }: Column): string =>
  references ?? join!.columns[1]!.references!;

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
      each.kind === 'delete' && each.resource.table === table && each.parent === undefined,
  );
  const end = `/${toKebabCase(table)}/{}`;
  const route = [...routes].find((each) => each.startsWith('delete ') && each.endsWith(end));
  return (own?.path ?? route?.slice('delete '.length))?.replace(/\/\{\w*\}$/, '');
}

/** A function that returns a body; the values of unique properties depend on the number that it gets. */
function writeSample(resource: Resource, seed: number): string {
  const code = writeBody(resource, seed);
  const usesNumber = getNames(code).includes('n');
  return `${code.includes('await ') ? 'async ' : ''}${usesNumber ? '(n)' : '()'} => (${code})`;
}

/** The properties whose values no two rows share. */
function getUnique({ id, columns }: Resource): string[] {
  const unique = columns.filter((column) => column.unique).map(({ name }) => name);
  return id.by === 'client' ? [...new Set([id.property!, ...unique])] : unique;
}

function writeBody(resource: Resource, seed: number): string {
  const { id, columns, request } = resource;
  const unique = getUnique(resource);
  const sent = Object.entries(toSample(request, seed)).filter(
    ([name]) => name !== id.property || id.by === 'client',
  );
  const properties = sent.map(([name, value]): [string, string] => {
    const column = columns.find((each) => each.name === name);
    if (column?.references !== undefined) return [name, writeReference(column.references)];
    if (column?.join !== undefined) {
      const code = writeReference(getTable(column));
      return [name, `[${(value as unknown[]).map(() => code).join(', ')}]`];
    }
    return [name, unique.includes(name) ? writeUnique(value) : literal(value)];
  });
  return object(Object.fromEntries(properties));
}

/** A value that depends on `n`. */
function writeUnique(value: unknown): string {
  if (typeof value === 'number') return 'n';
  if (typeof value !== 'string') return literal(value);
  if (UUID.test(value)) return `\`${value.slice(0, -6)}\${String(n).padStart(6, '0')}\``;
  return /^[\w ]+$/.test(value) ? `\`${value.slice(0, 20)} \${n}\`` : literal(value);
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;
