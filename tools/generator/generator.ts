/** Makes a module from an OpenAPI document: reads it, plans what is stored, and writes the files. */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { Column, Module, Resource } from './model.js';
import { Changes, type Project, readIfExists, readProject } from './project.js';
import { readContract, toRoute } from './read/contract.js';
import { ContractError, type Json } from './read/document.js';
import { planModule } from './resources.js';
import { getApiPath, writeApi } from './write/api-file.js';
import {
  getEntityPath,
  getMigrationPath,
  writeColumnsMigration,
  writeEntity,
  writeJoin,
  writeMigration,
} from './write/entity-file.js';
import { getModulePath, getServicePath, writeModule, writeService } from './write/service-file.js';
import { getTestPath, writeTest } from './write/test-file.js';
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
 * @throws {ContractError} if nothing of the document can be generated
 */
export async function generate(root: Json, name: string, source: string): Promise<Generated> {
  const project = await readProject(name);
  const contract = readContract(root, name, project);
  if (contract.operations.length === 0)
    throw new ContractError([
      `${source}: nothing to generate. ${contract.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`).join('; ')}`,
    ]);
  const plan = planModule(contract, [...project.tables.keys()]);
  const module = { ...contract, ...plan, name, source };
  const changes = new Changes();
  const tasks = await writeFiles(module, project, changes);
  return { module, changes, tasks };
}

async function writeFiles(module: Module, project: Project, changes: Changes): Promise<string[]> {
  const { name, resources, operations } = module;
  const routes = new Set(operations.map(({ method, path }) => toRoute(method, path)));
  for (const placeholder of project.placeholders)
    if (routes.has(placeholder.route)) await changes.deletePlaceholder(placeholder);
  const isNew = !existsSync(getApiPath(name));
  await changes.write(getApiPath(name), writeApi(module));
  const timestamps = new Map(
    resources.map((resource, index) => [
      resource.name,
      Math.max(Date.now(), project.latestMigration + 1) + index,
    ]),
  );
  const tasks: string[] = [];
  for (const resource of resources) {
    const path = getEntityPath(name, resource);
    const entity = isNew ? undefined : await readIfExists(path);
    const timestamp = timestamps.get(resource.name)!;
    for (const join of resource.columns.flatMap((column) => column.join ?? []))
      await changes.writeOnce(getEntityPath(name, join), writeJoin(module, join));
    if (entity === undefined) {
      await changes.writeOnce(path, writeEntity(module, resource));
      await changes.writeOnce(
        getMigrationPath(name, resource, timestamp),
        writeMigration(module, resource, timestamp),
      );
      if (!isNew)
        tasks.push(
          `Add the entity and the migration of ${resource.table} to ${getModulePath(name)}.`,
        );
    } else tasks.push(...(await compareColumns(module, resource, entity, timestamp, changes)));
  }
  await changes.writeOnce(getServicePath(name), writeService(module));
  await changes.writeOnce(getModulePath(name), writeModule(module, timestamps));
  const test = writeTest(module, project.routes);
  if (test !== undefined) await changes.writeOnce(getTestPath(name), test);
  await changes.addFeature(name);
  if (!isNew) tasks.push(...(await compareMethods(module)));
  return tasks;
}

/** Compares the columns of a resource with its entity, which belongs to the team. */
async function compareColumns(
  module: Module,
  resource: Resource,
  entity: string,
  timestamp: number,
  changes: Changes,
): Promise<string[]> {
  const known = new Set(
    [...entity.matchAll(/^ {2}(?:'([^']+)'|(\w+))[!?]?:/gm)].map(
      ([, quoted, name]) => quoted ?? name,
    ),
  );
  const path = getEntityPath(module.name, resource);
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
  if (!isDrafted) await changes.write(draft.path, draft.code);
  return [
    ...tasks,
    `${path}: add ${names}, and the draft of its migration, ${toKebabCase(ending.slice(1, -3))}, to the module.`,
  ];
}

/** Names the methods that the service does not have yet; TypeScript reports them, too. */
async function compareMethods({ name, operations }: Module): Promise<string[]> {
  const path = getServicePath(name);
  const service = existsSync(path) ? await readFile(path, 'utf8') : undefined;
  if (service === undefined) return [];
  return operations
    .filter((operation) => !new RegExp(`^ {2}(async )?${operation.name}\\(`, 'm').test(service))
    .map((operation) => `${path}: implement ${operation.name}.`);
}
