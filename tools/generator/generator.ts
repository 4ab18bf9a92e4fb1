/** Generates a module from an OpenAPI document: reads the document, plans the tables, and writes the files. */
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
import type { SourceFile } from './write/source.js';
import { getTestPath, writeTest } from './write/test-file.js';

export type ModuleOptions = Pick<Module, 'name' | 'source'>;

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

/** A module, its files, and the tasks that remain for the team. */
export interface Generated {
  readonly module: Module;
  readonly changes: Changes;
  readonly tasks: readonly string[];
}

/** Generates a module, whose files are written by `changes.apply()`. */
export async function generate(root: Json, options: ModuleOptions): Promise<Generated> {
  const project = await readProject(options.name);
  const planned = planModule(root, options, project, project.tables);
  const service = await readIfExists(`${getFolder(planned.name)}/${planned.name}.service.ts`);
  const operations = planned.operations.map((each): PlannedOperation => {
    if (service === undefined) return each;
    if (!readMethods(service).includes(each.name))
      return { ...each, todo: `the service lacks ${each.name}` };
    const isStub = service.includes(`notImplemented('${each.operationId}')`);
    if (each.implementation.kind === 'stub') return { ...each, isCompleted: !isStub };
    return isStub ? { ...each, implementation: { kind: 'stub', reason: ENOUGH } } : each;
  });
  return new Update({ ...planned, operations }, project).run();
}

const ENOUGH = 'its method throws notImplemented, although the contract says enough by now';

/** The names of the methods of a service. */
const readMethods = (service: string): string[] =>
  [...service.matchAll(/^ {2}(?:override )?(?:async )?(\w+)\(/gm)].map(([, name]) => name!);

/** Returns the properties of generated classes as `Class property`. */
const readProperties = (text: string): string[] =>
  [...text.matchAll(/^export class (\w+) \{\n(.*?)^\}/gms)].flatMap(([, dto, body]) =>
    [...body!.matchAll(/^ {2}(\w+)[!?]: /gm)].map(([, name]) => `${dto} ${name}`),
  );

/** Returns the column types of an entity, such as `varchar(80)`, by property. */
const readTypes = (text: string): Map<string, string> =>
  new Map(
    [...text.matchAll(/@Column\('([^']+)'([^@]*?)\)\s+(\w+)!: /g)].map(
      ([, type, options, name]) => {
        const [length] = /(?<=length: )\d+/.exec(options!) ?? [];
        return [name!, length === undefined ? type! : `${type}(${length})`];
      },
    ),
  );

/** Writes the files of a module, and compares what the team owns with the contract. */
class Update {
  private readonly changes = new Changes();
  private readonly tasks: string[] = [];
  /** The columns that the entity of a resource lacks. */
  private readonly missing = new Map<Resource, string>();

  constructor(
    private readonly module: Module,
    private readonly project: Project,
  ) {}

  async run(): Promise<Generated> {
    const { module, changes, tasks } = this;
    const api = writeApi(module);
    const before = await readIfExists(api.path);
    const start = Math.max(Date.now(), this.project.latestMigration + 1);
    const timestamps = new Map(module.resources.map((each, index) => [each, start + index]));
    await changes.write(api);
    await changes.writeOnce(writeDecorators(module));
    for (const [resource, timestamp] of timestamps) {
      const entity = writeEntity(module, resource);
      const current = await readIfExists(entity.path);
      if (current !== undefined) {
        await this.compareColumns(resource, entity, current, timestamp);
        continue;
      }
      await changes.writeOnce(entity);
      await changes.writeOnce(writeMigration(module, resource, timestamp));
      if (before !== undefined) await this.addResource(resource);
    }
    const service = writeService(module);
    await this.compareMethods(service.path);
    await changes.writeOnce(service);
    await changes.writeOnce(writeModule(module, timestamps));
    const test = await readIfExists(getTestPath(module));
    const { file, untested } = writeTest(module);
    if (file !== undefined) await changes.writeOnce(file);
    if (before === undefined) tasks.push(...untested);
    await changes.addFeature(module.name);
    const now = readProperties(await formatFile(api));
    const removed = readProperties(before ?? '').filter((each) => !now.includes(each));
    for (const name of new Set(removed.map((each) => each.split(' ')[1]!)))
      if (new RegExp(`\\b${name}\\b`).test(test ?? ''))
        tasks.push(`${getTestPath(module)}: ${name} is in one class less: correct what sends it.`);
    const operations = module.operations.map((each): PlannedOperation => {
      const { implementation, todo } = each;
      const lacks = 'resource' in implementation && this.missing.get(implementation.resource);
      return todo === undefined && lacks ? { ...each, todo: `the entity lacks ${lacks}` } : each;
    });
    return { module: { ...module, operations }, changes, tasks };
  }

  /** Writes the methods and the test of a resource that a changed contract added to files of their own. */
  private async addResource(resource: Resource): Promise<void> {
    const { name } = this.module;
    const service = writeService(this.module, resource);
    await this.changes.writeOnce(service);
    const { file, untested } = writeTest(this.module, resource);
    if (file !== undefined) await this.changes.writeOnce(file);
    this.tasks.push(
      ...untested,
      `${getFolder(name)}/${name}.module.ts: add the entity and the migration of ${resource.table}.`,
      `${service.path}: move its methods to the service of the module, or call them there.`,
    );
  }

  /** Adds tasks for the methods that a service lacks, and for those that are no longer in the contract. */
  private async compareMethods(path: string): Promise<void> {
    const text = await readIfExists(path);
    if (text === undefined) return;
    const own = readMethods(text);
    const names = this.module.operations.map(({ name }) => name);
    this.tasks.push(
      ...names.filter((each) => !own.includes(each)).map((each) => `${path}: implement ${each}.`),
      ...own
        .filter((each) => each !== 'constructor' && !names.includes(each))
        .map((each) => `${path}: ${each} is not in the contract.`),
    );
  }

  /** Compares the team's entity with the contract, and drafts a migration for new columns. */
  private async compareColumns(
    resource: Resource,
    entity: SourceFile,
    current: string,
    timestamp: number,
  ): Promise<void> {
    const { path } = entity;
    const known = [...current.matchAll(/^ {2}(\w+)!: /gm)].map(([, name]) => name!);
    const stored = new Set(['id', 'version', ...resource.columns.map(({ property }) => property)]);
    const planned = await formatFile(entity);
    const types = readTypes(current);
    const constraints = [...new Set(planned.match(/(?<=')(uq|fk|ix)_\w+(?=')/g))];
    this.tasks.push(
      ...known
        .filter((each) => !stored.has(each))
        .map((each) => `${path}: ${each} is not in the contract.`),
      ...[...readTypes(planned)]
        .filter(([name, type]) => (types.get(name) ?? type) !== type)
        .map(
          ([name, type]) =>
            `${path}: ${name} is ${types.get(name)}, and ${type} in the contract: change it with a migration.`,
        ),
      ...constraints
        .filter((each) => !current.includes(each))
        .map((each) => `${path}: add ${each} with a migration.`),
    );
    const added = resource.columns.filter(({ property }) => !known.includes(property));
    if (added.length === 0) return;
    const draft = writeColumnsMigration(this.module, resource, added, timestamp);
    const folder = `${getFolder(this.module.name)}/migrations`;
    const ending = draft.path.slice(draft.path.indexOf('-', folder.length));
    const isDrafted =
      existsSync(folder) && (await readdir(folder)).some((file) => file.endsWith(ending));
    if (!isDrafted) await this.changes.write(draft);
    const names = added.map(({ property }) => property).join(', ');
    this.missing.set(resource, names);
    this.tasks.push(
      `${path}: add ${names}, and the draft of its migration, ${toKebabCase(ending.slice(1, -3))}, to the module.`,
    );
  }
}
