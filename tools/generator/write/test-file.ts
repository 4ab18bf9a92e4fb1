/** Writes the test of a module: once, then it belongs to the team. */
import type { DtoClass, Module, PlannedOperation, Resource } from '../model.js';
import { access, literal, object, propertyName, quote, SourceFile } from './source.js';
import { toInvalid, toSample } from './samples.js';

export const getTestPath = (module: string): string => `test/${module}.databases.test.ts`;

/** @returns undefined if nothing can be tested */
export function writeTest(module: Module): string | undefined {
  const file = new SourceFile(getTestPath(module.name));
  const code = module.resources.map((resource) => writeResource(file, module, resource));
  if (code.every((each) => each === '')) return undefined;
  const start = `const app = await ${file.use('startApp')}();\nafterAll(() => app.stop());`;
  return file.render([start, ...code].join('\n\n'));
}

function writeResource(file: SourceFile, module: Module, resource: Resource): string {
  const { create, request } = getCreate(module, resource);
  const { id } = resource;
  const key = getKey(module, resource);
  // Without a body of the response, nothing tells the id that the service has assigned.
  if (create.success.schema === undefined && id.by === 'service' && key === 'id') return '';
  const unique = getUnique(resource);
  const invalid = toInvalid({
    ...request,
    properties: request.properties.filter(({ name }) => name !== id.property),
  });
  const shown = getShown(resource, key, create);
  return `await ${file.use('describeResource')}(app, ${quote(create.path)}, ${object({
    create: writeSample(file, module, resource, 1),
    other: writeSample(file, module, resource, 2),
    invalid: invalid && literal({ [invalid.property]: [invalid.value] }),
    unique: unique.length === 0 ? undefined : literal(unique.map((property) => [property])),
    shown: shown === '{}' ? undefined : shown,
    id: key === 'id' ? undefined : quote(key),
    parent: writeParent(file, module, create),
  })});`;
}

/** The operation that creates a resource, and the class of its body. */
function getCreate(
  { operations, classes }: Module,
  resource: Resource,
): { readonly create: PlannedOperation; readonly request: DtoClass } {
  const create = operations.find(
    ({ implementation }) =>
      implementation.kind === 'create' && implementation.resource === resource.name,
  )!;
  return { create, request: classes.find(({ name }) => name === create.body!.schema.class)! };
}

/** The property that the path of a resource ends with. */
function getKey({ operations }: Module, { name, id, columns }: Resource): string {
  const keys = new Set(
    operations.flatMap(({ implementation }) =>
      'key' in implementation &&
      implementation.resource === name &&
      implementation.key.in === 'path'
        ? [implementation.key.property]
        : [],
    ),
  );
  const column = columns.find(({ property }) => property !== 'id' && keys.has(property));
  return column?.name ?? id.property ?? 'id';
}

/** What responses have besides the body, and what they lack of it. */
function getShown({ columns, id }: Resource, key: string, create: PlannedOperation): string {
  const assigned = columns.filter(
    (column) => column.assigned !== undefined && column.hidden !== true,
  );
  const names = assigned.map(({ name }) => name);
  if (id.property !== undefined && id.property !== key && create.success.schema !== undefined)
    names.push(id.property);
  const hidden = columns.filter((column) => column.hidden === true && column.hashed !== true);
  return object({
    ...Object.fromEntries(names.map((name) => [name, 'expect.anything()'])),
    ...Object.fromEntries(hidden.map(({ name }) => [name, 'undefined'])),
  });
}

/** A function that creates what the path of a resource is below. */
function writeParent(
  file: SourceFile,
  module: Module,
  { implementation }: PlannedOperation,
): string | undefined {
  const parent = 'parent' in implementation ? implementation.parent : undefined;
  if (parent === undefined) return undefined;
  const resource = module.resources.find(({ name }) => name === parent.resource)!;
  const created = writeRequest(file, module, resource, []);
  return `async () => ({ ${propertyName(parent.parameter)}: ${created} })`;
}

/** Code that creates a resource, and returns its id. */
function writeRequest(
  file: SourceFile,
  module: Module,
  resource: Resource,
  unique: readonly string[],
): string {
  const { create } = getCreate(module, resource);
  const { property = 'id', kind } = resource.id;
  const response = `await ${file.use('sendRequest')}(\`\${app.url}/v1${create.path}\`, {
    method: 'POST',
    headers: ${file.use('jsonHeaders')}(app.key),
    body: JSON.stringify(${writeBody(file, module, resource, 3, unique)}),
  })`;
  const type = kind === 'integer' ? 'number' : 'string';
  return access(`(${response}).json<{ ${propertyName(property)}: ${type} }>()`, property);
}

/** A function that returns a body; the values of unique properties depend on the number that it gets. */
function writeSample(file: SourceFile, module: Module, resource: Resource, seed: number): string {
  const unique = getUnique(resource);
  const code = writeBody(file, module, resource, seed, unique);
  const usesNumber = /\bn\b/.test(code.replaceAll(/'(\\.|[^'\\])*'/g, ''));
  return `${code.includes('await ') ? 'async ' : ''}${usesNumber ? '(n)' : '()'} => (${code})`;
}

/** The properties whose values no two rows share. */
function getUnique({ id, columns }: Resource): string[] {
  const unique = columns.filter((column) => column.unique).map(({ name }) => name);
  return id.by === 'client' ? [...new Set([id.property!, ...unique])] : unique;
}

function writeBody(
  file: SourceFile,
  module: Module,
  resource: Resource,
  seed: number,
  unique: readonly string[],
): string {
  const { request } = getCreate(module, resource);
  const { id, columns } = resource;
  const sent = Object.entries(toSample(request, module.classes, seed)).filter(
    ([name]) => name !== id.property || id.by === 'client',
  );
  const properties = sent.flatMap(([name, value]): [string, string][] => {
    const table = columns.find((column) => column.name === name)?.references;
    if (table === undefined)
      return [[name, unique.includes(name) ? writeUnique(value) : literal(value)]];
    const code = writeReference(file, module, resource, table);
    return code === undefined ? [] : [[name, code]];
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

/** The id of an earlier resource of the module, or of a category; that of another table a person must add. */
function writeReference(
  file: SourceFile,
  module: Module,
  from: Resource,
  table: string,
): string | undefined {
  const earlier = module.resources.slice(0, module.resources.indexOf(from));
  const resource = earlier.find((each) => each.table === table);
  if (resource !== undefined) return writeRequest(file, module, resource, getUnique(resource));
  return table === 'categories'
    ? `(await app.categories.create('dog')).json<{ id: number }>().id`
    : undefined;
}
