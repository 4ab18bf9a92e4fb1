/** Writes the test of a module: once, then it belongs to the team. */
import type { DtoClass, Implementation, Module, Resource, Schema } from '../model.js';
import { toKebabCase } from '../names.js';
import { getStored } from '../plan/columns.js';
import { NoSample, toInvalid, toSample } from './samples.js';
import { call, code, type Code, ifAny, literal, type SourceFile, toFile } from './source.js';

type Create = Extract<Implementation, { kind: 'create' | 'read' | 'replace' | 'patch' | 'delete' }>;

/**
 * @param only the resource that is tested, in a file of its own, by default all of them
 * @returns undefined if nothing can be tested
 */
export function writeTest(module: Module, only?: Resource): SourceFile | undefined {
  const resources = only === undefined ? module.resources : [only];
  const tests = resources.flatMap((each) => writeResource(module, each) ?? []);
  if (tests.length === 0) return undefined;
  const start = `const app = await startApp();\nafterAll(() => app.stop());`;
  const file = only === undefined ? module.name : `${module.name}-${toKebabCase(only.table)}`;
  return toFile(`test/modules/${file}.databases.test.ts`, [start, ...tests].join('\n\n'));
}

/** Returns how a resource is created; undefined if a person has to complete that. */
function getCreate(
  { operations }: Module,
  resource: Resource,
): { path: string; create: Create } | undefined {
  for (const { path, implementation } of operations)
    if (implementation.kind === 'create' && implementation.resource === resource)
      return { path, create: implementation };
  return undefined;
}

function writeResource(module: Module, resource: Resource): string | undefined {
  const found = getCreate(module, resource);
  if (found === undefined) return undefined;
  const { path, create } = found;
  const { id, columns, owners } = resource;
  try {
    const parents = owners.map((owner) => toParent(module, owner.parameter, owner.resource));
    const sent = create.sent!;
    const refers = columns.some(({ schema }) => schema.references !== undefined);
    if (refers) return undefined;
    const unique = [
      ...(id.byClient ? [id.property!] : []),
      ...columns.flatMap(({ schema, name }) => (schema.unique && name !== undefined ? [name] : [])),
    ];
    const toBody = (seed: number): Code => {
      const body = toBodySample(resource, sent.dto, seed);
      const changed = Object.entries(body).map(([name, value]) => [
        name,
        unique.includes(name)
          ? toUnique(
              value,
              sent.dto.properties.find((each) => each.name === name)!,
            )
          : value,
      ]);
      return code(`(${unique.length > 0 ? 'n' : ''}) => (${literal(Object.fromEntries(changed))})`);
    };
    const options = {
      create: toBody(1),
      other: toBody(2),
      invalid: toInvalid(getStored(resource, sent)),
      id: id.property === 'id' ? undefined : id.property,
      wrapper: sent.property,
      parent: ifAny(parents),
    };
    if (create.returns === 'nothing' && !id.byClient) return undefined;
    return `await ${call('describeResource', code('app'), path, ifAny(options))};`;
  } catch (error) {
    if (error instanceof NoSample) return undefined;
    throw error;
  }
}

/** Returns a body that creates a row: without an id that the service would ignore. */
function toBodySample({ id }: Resource, dto: DtoClass, seed: number): Record<string, unknown> {
  const { [id.property ?? '']: own, ...body } = toSample(dto, seed);
  return id.byClient ? { [id.property!]: own, ...body } : body;
}

/** Returns how a row of a parent is created, below the parents before it. */
function toParent(module: Module, parameter: string, resource: Resource): object {
  const found = getCreate(module, resource);
  if (found === undefined || found.create.returns === 'nothing') throw new NoSample();
  const { path, create } = found;
  const sample = toBodySample(resource, create.sent!.dto, 1);
  const body = create.sent!.property === undefined ? sample : { [create.sent!.property]: sample };
  return { parameter, path, body, id: resource.id.property };
}

/** A value that depends on `n`, if the schema has room for one. */
function toUnique(
  value: unknown,
  { enum: values, pattern, format, maxLength = Infinity, type }: Schema,
): unknown {
  if (type === 'integer') return code(`${String(value)} + n`);
  if (values !== undefined || pattern !== undefined || typeof value !== 'string')
    throw new NoSample();
  if (format === 'uuid') return code(`\`\${String(n).padStart(8, '0')}${value.slice(8)}\``);
  if (format === 'email') return code(`\`a\${n}${value}\``);
  if (format !== undefined || maxLength < 6) throw new NoSample();
  return code(`\`\${n} ${value.slice(0, maxLength - 5).replaceAll(/[`$\\]/g, '')}\``);
}
