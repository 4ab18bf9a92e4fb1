/** Makes a module from an OpenAPI document: reads it, plans what is stored, and writes the files. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { ContractError, type Module, type PlannedOperation, type Resource } from './model.js';
import { toKebabCase } from './names.js';
import { plan } from './plan/operations.js';
import { Changes, formatFile, type Project, readIfExists, readProject } from './project.js';
import { readContract, type Service } from './read/contract.js';
import type { Json } from './read/json.js';
import { getFolder, writeApi, writeDecorators } from './write/api-file.js';
import { writeColumnsMigration, writeEntity, writeMigration } from './write/entity-file.js';
import { writeModule, writeService } from './write/service-file.js';
import { getTestPath, writeTest } from './write/test-file.js';

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
  return { ...contract, ...plan(contract, name, tables, service.schemas), name, source };
}

/** Generates a module, without writing anything yet, and returns what people have to do. */
export async function generate(
  root: Json,
  options: ModuleOptions,
): Promise<{ module: Module; changes: Changes; tasks: string[] }> {
  const project = await readProject(options.name);
  const planned = planModule(root, options, project, project.tables);
  const service = await readIfExists(`${getFolder(planned.name)}/${planned.name}.service.ts`);
  const operations = planned.operations.map((each): PlannedOperation => {
    if (service === undefined) return each;
    if (!hasMethod(service, each.name)) return { ...each, todo: `the service lacks ${each.name}` };
    const isStub = service.includes(`notImplemented('${each.operationId}')`);
    if (each.implementation.kind === 'stub') return { ...each, isCompleted: !isStub };
    return isStub ? { ...each, implementation: { kind: 'stub', reason: ENOUGH } } : each;
  });
  const module = { ...planned, operations };
  const changes = new Changes();
  const todos = new Map<Resource, string>();
  const tasks = await writeFiles(module, project, changes, todos);
  const left = operations.map((each): PlannedOperation => {
    const { implementation, todo } = each;
    const resource = 'resource' in implementation ? implementation.resource : undefined;
    return Object.assign({}, each, { todo: todo ?? (resource && todos.get(resource)) });
  });
  return { module: { ...module, operations: left }, changes, tasks };
}

const ENOUGH = 'its method throws notImplemented, although the contract says enough by now';

const hasMethod = (service: string, name: string): boolean =>
  new RegExp(`^ {2}(override )?(async )?${name}\\(`, 'm').test(service);

/** @param todos gets why the operations of a resource are not implemented */
async function writeFiles(
  module: Module,
  project: Project,
  changes: Changes,
  todos: Map<Resource, string>,
): Promise<string[]> {
  const { name, resources } = module;
  const api = writeApi(module);
  const before = await readIfExists(api.path);
  const isNew = before === undefined;
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
        ...(await compareColumns(
          module,
          resource,
          entity.path,
          current,
          timestamp,
          changes,
          todos,
        )),
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
  const { file, untested } = writeTest(module);
  const test = await readIfExists(getTestPath(module));
  if (file !== undefined) await changes.writeOnce(file);
  if (isNew) tasks.push(...untested);
  await changes.addFeature(name);
  const now = new Set(readProperties(await formatFile(api)));
  const removed = readProperties(before ?? '').filter((each) => !now.has(each));
  const names = new Set(removed.map((each) => each.split(' ')[1]!));
  const sent = [...names].filter((each) => new RegExp(`\\b${each}\\b`).test(test ?? ''));
  return [
    ...tasks,
    ...sent.map(
      (each) => `${getTestPath(module)}: ${each} is in one class less: correct what sends it.`,
    ),
  ];
}

/** The properties of the classes of generated code, after the names of their classes. */
const readProperties = (text: string): string[] =>
  [...text.matchAll(/^export class (\w+) \{\n(.*?)^\}/gms)].flatMap(([, dto, body]) =>
    [...body!.matchAll(/^ {2}(\w+)[!?]: /gm)].map(([, name]) => `${dto} ${name}`),
  );

/** The types of the columns of an entity, with their lengths, by property. */
const readTypes = (text: string): Map<string, string> =>
  new Map(
    [...text.matchAll(/@Column\('([^']+)'([^@]*?)\)\s+(\w+)!: /g)].map(
      ([, type, options, name]) => {
        const [length] = /(?<=length: )\d+/.exec(options!) ?? [];
        return [name!, length === undefined ? type! : `${type}(${length})`];
      },
    ),
  );

/** Writes the methods and the test of a resource that a changed contract added to files of their own. */
async function addResource(
  module: Module,
  resource: Resource,
  changes: Changes,
): Promise<string[]> {
  const service = writeService(module, resource);
  await changes.writeOnce(service);
  const { file, untested } = writeTest(module, resource);
  if (file !== undefined) await changes.writeOnce(file);
  return [
    ...untested,
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
  todos: Map<Resource, string>,
): Promise<string[]> {
  const known = new Set([...text.matchAll(/^ {2}(\w+)!: /gm)].map(([, name]) => name!));
  const stored = new Set(['id', 'version', ...resource.columns.map(({ property }) => property)]);
  const removed = [...known].filter((name) => !stored.has(name));
  const planned = await formatFile(writeEntity(module, resource));
  const types = readTypes(text);
  const differing = [...readTypes(planned)].filter(
    ([name, type]) => (types.get(name) ?? type) !== type,
  );
  const constraints = [...new Set(planned.match(/(?<=')(uq|fk|ix)_\w+(?=')/g))];
  const tasks = [
    ...removed.map((name) => `${path}: ${name} is not in the contract.`),
    ...differing.map(
      ([name, type]) =>
        `${path}: ${name} is ${types.get(name)}, and ${type} in the contract: change it with a migration.`,
    ),
    ...constraints
      .filter((each) => !text.includes(each))
      .map((each) => `${path}: add ${each} with a migration.`),
  ];
  const added = resource.columns.filter(({ property }) => !known.has(property));
  if (added.length === 0) return tasks;
  const draft = writeColumnsMigration(module, resource, added, timestamp);
  const folder = `${getFolder(module.name)}/migrations`;
  const ending = draft.path.slice(draft.path.indexOf('-', folder.length));
  const isDrafted =
    existsSync(folder) && (await readdir(folder)).some((file) => file.endsWith(ending));
  if (!isDrafted) await changes.write(draft);
  const names = added.map(({ property }) => property).join(', ');
  todos.set(resource, `the entity lacks ${names}`);
  return [
    ...tasks,
    `${path}: add ${names}, and the draft of its migration, ${toKebabCase(ending.slice(1, -3))}, to the module.`,
  ];
}
