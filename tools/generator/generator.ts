/** Makes a module from an OpenAPI document: reads it, plans what is stored, and writes the files. */
import { compareApi, compareColumns, compareMethods, findLeft, type Results } from './existing.js';
import { readMembers } from './members.js';
import type { Module, Resource } from './model.js';
import { Changes, formatFile, type Project, readIfExists, readProject } from './project.js';
import { readContract, toRoute } from './read/contract.js';
import { ContractError } from './read/document.js';
import type { Json } from './read/json.js';
import { planModule } from './plan/plan.js';
import { writeApi, writeDecorators } from './write/api-file.js';
import { writeEntity, writeJoin, writeMigration } from './write/entity-file.js';
import { writeModule, writeResourceService, writeService } from './write/service-file.js';
import { writeTest } from './write/test-file.js';

/** What a module is generated as. */
export interface ModuleOptions {
  /** Its folder. */
  readonly name: string;
  /** What the generated file says it was generated from. */
  readonly source: string;
  /** The path of the contract, if there is one. */
  readonly file?: string;
  /** The prefix of its paths, such as `/api/v2`; by default, it is `/v1`. */
  readonly prefix?: string | undefined;
}

/** A module, the files that a run writes, and what people have to do. */
export interface Generated {
  readonly module: Module;
  readonly changes: Changes;
  readonly tasks: readonly string[];
  /** What clients of a module that exists would notice. */
  readonly differences: readonly string[];
  readonly results: Results;
}

/**
 * Generates a module, without writing anything yet.
 *
 * @throws {ContractError} if nothing of the document can be generated
 */
export async function generate(
  root: Json,
  { name, source, file, prefix }: ModuleOptions,
): Promise<Generated> {
  const project = await readProject(name);
  const contract = readContract(root, name, project, prefix);
  if (contract.operations.length === 0)
    throw new ContractError([
      `${source}: nothing to generate. ${contract.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`).join('; ')}`,
    ]);
  const plan = planModule(contract, project.tables);
  const module = { ...contract, ...plan, name, source, file };
  const changes = new Changes();
  return { module, changes, ...(await writeFiles(module, project, changes)) };
}

async function writeFiles(
  module: Module,
  project: Project,
  changes: Changes,
): Promise<Omit<Generated, 'module' | 'changes'>> {
  const { name, resources, operations } = module;
  const routes = new Set(operations.map(({ method, path }) => toRoute(method, path)));
  for (const placeholder of project.placeholders)
    if (routes.has(placeholder.route)) await changes.deletePlaceholder(placeholder);
  const api = writeApi(module);
  const before = await readIfExists(api.path);
  const isNew = before === undefined;
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
      if (!isNew) tasks.push(...(await addResource(module, resource, project, changes)));
    } else {
      const current = { path: entity.path, code: text };
      tasks.push(...(await compareColumns(module, resource, current, timestamp, changes)));
    }
  }
  await changes.writeOnce(service);
  await changes.writeOnce(feature);
  if (test !== undefined) await changes.writeOnce(test);
  await changes.addFeature(name);
  if (before === undefined) return { tasks, differences: [], results: new Map() };
  const old = await readMembers(api.path, before);
  const methods = await compareMethods(module, service);
  tasks.push(...methods.tasks, ...(await findLeft(module, old, service.path)));
  const differences = compareApi(old, await readMembers(api.path, await formatFile(api)));
  return { tasks, differences, results: methods.results };
}

/** Writes the methods and the test of a resource that a changed contract added to files of their own. */
async function addResource(
  module: Module,
  resource: Resource,
  project: Project,
  changes: Changes,
): Promise<string[]> {
  const service = writeResourceService(module, resource);
  await changes.writeOnce(service);
  const test = writeTest(module, project.routes, resource);
  if (test !== undefined) await changes.writeOnce(test);
  const file = `src/modules/${module.name}/${module.name}.module.ts`;
  return [
    `${file}: add the entity and the migration of ${resource.table}.`,
    `${service.path}: move its methods to the service of the module, or call them there.`,
  ];
}
