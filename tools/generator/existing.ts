/** Compares what a run would write with the files that belong to the team. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { type Member, readMembers } from './members.js';
import type { Column, Module, Resource } from './model.js';
import { toKebabCase } from './names.js';
import { type Changes, formatFile, readIfExists } from './project.js';
import { writeColumnsMigration, writeEntity } from './write/entity-file.js';
import type { SourceFile } from './write/imports.js';

/** What the report says instead of `implemented` or of the reason for a stub, by the names of operations. */
export type Results = ReadonlyMap<string, string>;

const find = (list: readonly Member[], name: string): Member | undefined =>
  list.find((each) => each.name === name);

/** Compares the methods of a service with those that would be generated. */
export async function compareMethods(
  { operations }: Module,
  service: SourceFile,
): Promise<{ results: Results; tasks: string[] }> {
  const { path } = service;
  const text = await readIfExists(path);
  if (text === undefined) return { results: new Map(), tasks: [] };
  const members = await readMembers(path, text);
  const generated = await readMembers(path, await formatFile(service));
  const results = new Map<string, string>();
  const tasks: string[] = [];
  for (const { name, implementation } of operations) {
    const own = find(members, name);
    const isStub = implementation.kind === 'stub';
    if (own === undefined) {
      results.set(name, 'to do: the service has no method for it');
      tasks.push(`${path}: implement ${name}.`);
    } else if (own.isStub && !isStub)
      results.set(name, 'stub: its method only throws notImplemented');
    else if (!own.isStub && own.code !== find(generated, name)!.code) results.set(name, 'yours');
  }
  return { results, tasks };
}

/** Lists what is left of operations that the contract does not have any more, and of what they stored. */
export async function findLeft(
  module: Module,
  before: readonly Member[],
  service: string,
): Promise<string[]> {
  const names = new Set(module.operations.map(({ name }) => name));
  const removed = new Set(
    before
      .filter((each) => each.class.endsWith('Api') && !names.has(each.name))
      .map(({ name }) => name),
  );
  if (removed.size === 0) return [];
  const members = await readMembers(service, (await readIfExists(service)) ?? '');
  const folder = `src/modules/${module.name}`;
  const entities = new Set(
    module.resources.flatMap(({ name, columns }) => [
      `${toKebabCase(name)}.entity.ts`,
      ...columns.flatMap(({ join }) => (join ? `${toKebabCase(join.name)}.entity.ts` : [])),
    ]),
  );
  const files = (await readdir(folder)).filter((file) => file.endsWith('.entity.ts'));
  return [
    ...members
      .filter(({ name }) => removed.has(name))
      .map(({ name }) => `${service}: the contract has no ${name} any more; its method is left.`),
    ...files
      .filter((file) => !entities.has(file))
      .map((file) => `${folder}/${file}: no operation stores it; its table and tests are left.`),
  ];
}

/** Lines of generated code that clients do not notice. */
const TEXT = /^(summary|description|response|tags):|^return |^[)}\]]+[,;]?$/;

const getLines = (code: string): string[] => code.split('\n').map((line) => line.trim());

const getOnly = (lines: readonly string[], others: readonly string[]): string =>
  lines.filter((line) => !others.includes(line) && !TEXT.test(line)).join(' ');

/** Lists what a run changes of what clients see: the operations and the classes of the generated file. */
export function compareApi(before: readonly Member[], after: readonly Member[]): string[] {
  return before.flatMap((old) => {
    if (old.class.endsWith('Api')) return [];
    const place = `${old.class}.${old.name}`;
    const now = after.find((each) => each.class === old.class && each.name === old.name);
    if (now === undefined) return `${place} is removed`;
    const [was, is] = [getLines(old.code), getLines(now.code)];
    const [removed, added] = [getOnly(was, is), getOnly(is, was)];
    return removed + added === ''
      ? []
      : `${place}: ${removed || 'nothing'} becomes ${added || 'nothing'}`;
  });
}

/** Compares the columns of a resource with its entity, which belongs to the team. */
export async function compareColumns(
  module: Module,
  resource: Resource,
  { path, code }: SourceFile,
  timestamp: number,
  changes: Changes,
): Promise<string[]> {
  const members = await readMembers(path, code);
  const known = new Set(members.map(({ name }) => name));
  const added = resource.columns.filter(({ property }) => !known.has(property));
  const stored = new Set(['id', 'version', ...resource.columns.map(({ property }) => property)]);
  const removed = [...known].filter((name) => !stored.has(name));
  const draftMembers = await readMembers(path, await formatFile(writeEntity(module, resource)));
  const changed = draftMembers.flatMap(({ name, column }) => {
    const own = members.find((each) => each.name === name)?.column;
    return own === undefined || own === column
      ? []
      : `${path}: ${name} is ${own}, and of the contract ${column}: change it with a migration.`;
  });
  const tasks = [
    ...removed.map((property) => `${path}: the contract has no ${property} any more.`),
    ...changed,
  ];
  if (added.length === 0) return tasks;
  const names = added.map(({ property }: Column) => property).join(', ');
  const draft = writeColumnsMigration(module, resource, added, timestamp);
  const folder = `src/modules/${module.name}/migrations`;
  const ending = draft.path.slice(draft.path.indexOf('-', folder.length));
  const isDrafted =
    existsSync(folder) && (await readdir(folder)).some((file) => file.endsWith(ending));
  if (!isDrafted) await changes.write(draft);
  return [
    ...tasks,
    `${path}: add ${names}, and the draft of its migration, ${toKebabCase(ending.slice(1, -3))}, to the module.`,
  ];
}
