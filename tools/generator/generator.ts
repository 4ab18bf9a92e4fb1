/** Makes a module from an OpenAPI document: reads it, plans what is stored, and writes the files. */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { Column, Module, Operation, Resource } from './model.js';
import { Changes, type Project, readIfExists, readProject } from './project.js';
import { readContract, toRoute } from './read/contract.js';
import { ContractError, type Json } from './read/document.js';
import { planModule } from './plan/plan.js';
import { writeApi, writeDecorators } from './write/api-file.js';
import {
  writeColumnsMigration,
  writeEntity,
  writeJoin,
  writeMigration,
} from './write/entity-file.js';
import type { SourceFile } from './write/imports.js';
import { writeModule, writeService } from './write/service-file.js';
import { writeTest } from './write/test-file.js';
import { toKebabCase } from './names.js';

/** A module, the files that a run writes, and what people have to do. */
export interface Generated {
  readonly module: Module;
  readonly changes: Changes;
  readonly tasks: readonly string[];
}

/**
 * Generates a module, without writing anything yet.
 *
 * @param name the name of the module: its folder
 * @param source what the generated file says it was generated from
 * @param file the path of the contract, if there is one
 * @throws {ContractError} if nothing of the document can be generated
 */
export async function generate(
  root: Json,
  name: string,
  source: string,
  file?: string,
): Promise<Generated> {
  const project = await readProject(name);
  const contract = readContract(root, name, project);
  if (contract.operations.length === 0)
    throw new ContractError([
      `${source}: nothing to generate. ${contract.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`).join('; ')}`,
    ]);
  const plan = planModule(contract, [...project.tables.keys()]);
  const module = { ...contract, ...plan, name, source, file };
  const changes = new Changes();
  const tasks = await writeFiles(module, project, changes);
  return { module, changes, tasks };
}

async function writeFiles(module: Module, project: Project, changes: Changes): Promise<string[]> {
  const { name, resources, operations } = module;
  const routes = new Set(operations.map(({ method, path }) => toRoute(method, path)));
  for (const placeholder of project.placeholders)
    if (routes.has(placeholder.route)) await changes.deletePlaceholder(placeholder);
  const api = writeApi(module);
  const isNew = !existsSync(api.path);
  const start = Math.max(Date.now(), project.latestMigration + 1);
  const timestamps = new Map(resources.map((resource, index) => [resource, start + index]));
  const feature = writeModule(module, timestamps);
  const service = writeService(module);
  const test = writeTest(module, project.routes);
  await changes.write(api);
  await changes.writeOnce(writeDecorators(module));
  const tasks: string[] = [];
  for (const [resource, timestamp] of timestamps) {
    const entity = writeEntity(module, resource);
    const text = isNew ? undefined : await readIfExists(entity.path);
    for (const join of resource.columns.flatMap((column) => column.join ?? []))
      await changes.writeOnce(writeJoin(module, join));
    if (text === undefined) {
      await changes.writeOnce(entity);
      await changes.writeOnce(writeMigration(module, resource, timestamp));
      if (!isNew)
        tasks.push(`Add the entity and the migration of ${resource.table} to ${feature.path}.`);
    } else {
      const current = { path: entity.path, code: text };
      tasks.push(...(await compareColumns(module, resource, current, timestamp, changes)));
    }
  }
  await changes.writeOnce(service);
  await changes.writeOnce(feature);
  if (test !== undefined) await changes.writeOnce(test);
  await changes.addFeature(name);
  if (!isNew) tasks.push(...(await compareMethods(operations, service.path)));
  return tasks;
}

/** Compares the columns of a resource with its entity, which belongs to the team. */
async function compareColumns(
  module: Module,
  resource: Resource,
  { path, code }: SourceFile,
  timestamp: number,
  changes: Changes,
): Promise<string[]> {
  const known = new Set(
    [...code.matchAll(/^ {2}(?:'([^']+)'|(\w+))[!?]?:/gm)].map(
      ([, quoted, name]) => quoted ?? name,
    ),
  );
  const added = resource.columns.filter(({ property }) => !known.has(property));
  const stored = new Set(['id', 'version', ...resource.columns.map(({ property }) => property)]);
  const removed = [...known].filter((name) => !stored.has(name!));
  const tasks = removed.map((property) => `${path}: the contract has no ${property} any more.`);
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

/** Names the methods that the service does not have yet; TypeScript reports them, too. */
async function compareMethods(operations: readonly Operation[], path: string): Promise<string[]> {
  const service = existsSync(path) ? await readFile(path, 'utf8') : undefined;
  if (service === undefined) return [];
  return operations
    .filter((operation) => !new RegExp(`^ {2}(async )?${operation.name}\\(`, 'm').test(service))
    .map((operation) => `${path}: implement ${operation.name}.`);
}
