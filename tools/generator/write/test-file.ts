/** Writes the test of a module once; then it belongs to the team. */
import type { DtoClass, ImplementedOperation, Module, Resource, Schema } from '../model.js';
import { toKebabCase } from '../names.js';
import { getStored } from '../plan/columns.js';
import { isItem, toCollection } from '../plan/rule.js';
import { NoSample, toInvalid, toSample } from './samples.js';
import { call, code, type Code, ifAny, literal, type SourceFile, toFile } from './source.js';

type Create = Exclude<ImplementedOperation, { kind: 'list' }>;

/**
 * @param only the only resource to test, in a file of its own (default: all)
 * @returns the reasons why resources have no test, and the file, if it has any tests
 */
export function writeTest(
  module: Module,
  only?: Resource,
): { file: SourceFile | undefined; untested: string[] } {
  const untested: string[] = [];
  const tests = (only === undefined ? module.resources : [only]).flatMap((each) => {
    try {
      return [writeResource(module, each)];
    } catch (error) {
      if (!(error instanceof NoSample)) throw error;
      untested.push(`${each.table} has no test: ${error.message}.`);
      return [];
    }
  });
  const start = `const app = await startApp();\nafterAll(() => app.stop());`;
  const path = getTestPath(module, only);
  return {
    file: tests.length === 0 ? undefined : toFile(path, [start, ...tests].join('\n\n')),
    untested,
  };
}

export const getTestPath = ({ name }: Module, only?: Resource): string =>
  `test/modules/${name}${only === undefined ? '' : `.${toKebabCase(only.table)}`}.databases.test.ts`;

/** Returns the operation that creates a resource. @throws {NoSample} if there is none that a test can use */
function getCreate({ operations }: Module, resource: Resource): { path: string; create: Create } {
  for (const { path, implementation: create } of operations)
    if (create.kind === 'create' && create.resource === resource) {
      if (create.returns !== 'nothing' || resource.id.byClient) return { path, create };
      throw new NoSample(`POST ${path} does not return the id`);
    }
  throw new NoSample(`no request creates ${resource.table}`);
}

function writeResource(module: Module, resource: Resource): string {
  const { path, create } = getCreate(module, resource);
  const { id, columns, owners } = resource;
  const parents = owners.map((owner) => toParent(module, owner.parameter, owner.resource));
  const sent = create.sent!;
  const reference = columns.find(({ schema }) => schema.references !== undefined);
  if (reference !== undefined) throw new NoSample(`\`${reference.name}\` refers to another module`);
  const unique = [
    ...(id.byClient ? [id.property!] : []),
    ...columns.flatMap(({ schema, name }) => (schema.unique && name !== undefined ? [name] : [])),
  ];
  const toBody = (seed: number): Code => {
    const body = toBodySample(resource, sent.dto, seed);
    for (const name of Object.keys(body).filter((each) => unique.includes(each)))
      body[name] = toUnique(
        body[name],
        sent.dto.properties.find((each) => each.name === name)!,
      );
    return code(`(${unique.length > 0 ? 'n' : ''}) => (${literal(body)})`);
  };
  const options = {
    create: toBody(1),
    other: toBody(2),
    invalid: toInvalid(getStored(resource, sent)),
    id: id.property === 'id' ? undefined : id.property,
    wrapper: sent.property,
    stubs: ifAny(findStubs(module, resource)),
    parent: ifAny(parents),
  };
  return `await ${call('describeResource', code('app'), path, ifAny(options))};`;
}

/** Returns the operations and the list parameters of a resource that may return 501. */
const findStubs = ({ operations, leftOut }: Module, { route }: Resource): string[] => {
  const stubs = operations
    .filter(
      ({ implementation, isCompleted }) => implementation.kind === 'stub' && isCompleted !== true,
    )
    .map(({ method, path }) => [method.toUpperCase(), path]);
  const missing = [...stubs, ...leftOut.map(({ operation }) => operation.split(' '))]
    .filter(([, path]) => path !== undefined && toCollection(path) === route)
    .map(([method, path]) => (method === 'GET' && !isItem(path!) ? 'list' : method!));
  const refused = operations.flatMap(({ implementation: each }) =>
    each.kind === 'list' && each.resource.route === route ? each.refused : [],
  );
  return [...new Set([...missing, ...refused.map((name) => `?${name}`)])];
};

/** Returns a body that creates a row, without an ignored id. */
function toBodySample({ id }: Resource, dto: DtoClass, seed: number): Record<string, unknown> {
  const { [id.property ?? '']: own, ...body } = toSample(dto, seed);
  return id.byClient ? { [id.property!]: own, ...body } : body;
}

/** Returns the options by which the test creates a parent. */
function toParent(module: Module, parameter: string, resource: Resource): object {
  const { path, create } = getCreate(module, resource);
  const sample = toBodySample(resource, create.sent!.dto, 1);
  const body = create.sent!.property === undefined ? sample : { [create.sent!.property]: sample };
  return { parameter, path, body, id: resource.id.property };
}

const NO_UNIQUE = 'the samples of a property that must be unique would be the same';

/** Returns code for a value that depends on `n`. @throws {NoSample} if the schema does not allow one */
function toUnique(
  value: unknown,
  { enum: values, pattern, format, maxLength = Infinity, type }: Schema,
): unknown {
  if (type === 'integer') return code(`${String(value)} + n`);
  if (values !== undefined || pattern !== undefined || typeof value !== 'string')
    throw new NoSample(NO_UNIQUE);
  if (format === 'uuid') return code(`\`\${String(n).padStart(8, '0')}${value.slice(8)}\``);
  if (format === 'email') return code(`\`a\${n}${value}\``);
  if (format !== undefined || maxLength < 6) throw new NoSample(NO_UNIQUE);
  return code(`\`\${n} ${value.slice(0, maxLength - 5).replaceAll(/[`$\\]/g, '')}\``);
}
