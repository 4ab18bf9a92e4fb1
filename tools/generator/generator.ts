/** Makes a module from an OpenAPI document: reads it, plans what is stored, and writes the files. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { type Column, ContractError, type Module, type Resource } from './model.js';
import { isIdentifier, toKebabCase } from './names.js';
import { plan } from './plan/operations.js';
import { Changes, type Project, readIfExists, readProject } from './project.js';
import { readContract, type Service } from './read/contract.js';
import type { Json } from './read/json.js';
import { getFolder, writeApi, writeDecorators } from './write/api-file.js';
import { writeColumnsMigration, writeEntity, writeMigration } from './write/entity-file.js';
import { writeModule, writeService } from './write/service-file.js';
import { isSameType } from './write/source.js';
import { writeTest } from './write/test-file.js';

/** What a module is generated as. */
export interface ModuleOptions {
  /** The name of the folder. */
  readonly name: string;
  /** What the generated file says it was generated from. */
  readonly source: string;
}

/** @throws {ContractError} if nothing of the document can be generated */
export function planModule(
  root: Json,
  { name, source }: ModuleOptions,
  service: Service,
  tables: readonly string[],
): Module {
  const contract = readContract(root, name, service);
  if (contract.operations.length === 0)
    throw new ContractError([
      `${source}: nothing to generate.`,
      ...contract.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`),
    ]);
  return { ...contract, ...plan(contract, name, tables, isSameType), name, source };
}

/** Generates a module, without writing anything yet, and returns what people have to do. */
export async function generate(
  root: Json,
  options: ModuleOptions,
): Promise<{ module: Module; changes: Changes; tasks: string[] }> {
  const project = await readProject(options.name);
  const planned = planModule(root, options, project, project.tables);
  const service = await readIfExists(`${getFolder(planned.name)}/${planned.name}.service.ts`);
  const operations = planned.operations.map((each) => ({
    ...each,
    isCompleted:
      each.implementation.kind === 'stub' &&
      service !== undefined &&
      hasMethod(service, each.name) &&
      !service.includes(`notImplemented('${each.operationId}')`),
  }));
  const module = { ...planned, operations };
  const changes = new Changes();
  return { module, changes, tasks: await writeFiles(module, project, changes) };
}

const hasMethod = (service: string, name: string): boolean =>
  new RegExp(`^ {2}(override )?(async )?${name}\\(`, 'm').test(service);

async function writeFiles(module: Module, project: Project, changes: Changes): Promise<string[]> {
  const { name, resources } = module;
  const api = writeApi(module);
  const isNew = !existsSync(api.path);
  const start = Math.max(Date.now(), project.latestMigration + 1);
  const timestamps = new Map(resources.map((resource, index) => [resource, start + index]));
  await changes.write(api);
  await changes.writeOnce(writeDecorators(module));
  const tasks: string[] = [];
  for (const [resource, timestamp] of timestamps) {
    const entity = writeEntity(module, resource);
    const current = await readIfExists(entity.path);
    if (current !== undefined) {
      tasks.push(
        ...(await compareColumns(module, resource, entity.path, current, timestamp, changes)),
      );
      continue;
    }
    await changes.writeOnce(entity);
    await changes.writeOnce(writeMigration(module, resource, timestamp));
    if (!isNew) tasks.push(...(await addResource(module, resource, changes)));
  }
  const service = writeService(module);
  tasks.push(...(await compareMethods(module, service.path)));
  await changes.writeOnce(service);
  await changes.writeOnce(writeModule(module, timestamps));
  const test = writeTest(module);
  if (test !== undefined) await changes.writeOnce(test);
  await changes.addFeature(name);
  return tasks;
}

/** Writes the methods and the test of a resource that a changed contract added to files of their own. */
async function addResource(
  module: Module,
  resource: Resource,
  changes: Changes,
): Promise<string[]> {
  const service = writeService(module, resource);
  await changes.writeOnce(service);
  const test = writeTest(module, resource);
  if (test !== undefined) await changes.writeOnce(test);
  return [
    `${getFolder(module.name)}/${module.name}.module.ts: add the entity and the migration of ${resource.table}.`,
    `${service.path}: move its methods to the service of the module, or call them there.`,
  ];
}

/** Returns the methods that a service lacks, and those that the contract does not have any more. */
async function compareMethods({ operations }: Module, path: string): Promise<string[]> {
  const text = await readIfExists(path);
  if (text === undefined) return [];
  const own = new Set(
    [...text.matchAll(/^ {2}(?:override )?(?:async )?(\w+)\(/gm)].map(([, name]) => name!),
  );
  const names = operations.map(({ name }) => name);
  return [
    ...names.filter((name) => !own.has(name)).map((name) => `${path}: implement ${name}.`),
    ...[...own]
      .filter((name) => name !== 'constructor' && !names.includes(name))
      .map((name) => `${path}: ${name} is not in the contract.`),
  ];
}

/** Compares the columns of a resource with its entity, which belongs to the team, and drafts a migration for new ones. */
async function compareColumns(
  module: Module,
  resource: Resource,
  path: string,
  text: string,
  timestamp: number,
  changes: Changes,
): Promise<string[]> {
  const known = new Set(
    [...text.matchAll(/^ {2}(?:([A-Za-z_$][\w$]*)|'([^']*)')!: /gm)].map(
      ([, name, quoted]) => name ?? quoted!,
    ),
  );
  const stored = new Set(['id', 'version', ...resource.columns.map(({ property }) => property)]);
  const removed = [...known].filter((name) => !stored.has(name));
  const tasks = removed.map((name) => `${path}: ${name} is not in the contract.`);
  const added = resource.columns.filter(
    ({ property }) => !known.has(property) && isIdentifier(property),
  );
  if (added.length === 0) return tasks;
  const draft = writeColumnsMigration(module, resource, added, timestamp);
  const folder = `${getFolder(module.name)}/migrations`;
  const ending = draft.path.slice(draft.path.indexOf('-', folder.length));
  const isDrafted =
    existsSync(folder) && (await readdir(folder)).some((file) => file.endsWith(ending));
  if (!isDrafted) await changes.write(draft);
  const names = added.map(({ property }: Column) => property).join(', ');
  return [
    ...tasks,
    `${path}: add ${names}, and the draft of its migration, ${toKebabCase(ending.slice(1, -3))}, to the module.`,
  ];
}
