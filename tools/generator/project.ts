/** What the project already has, and how files are written to it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { type Service, toRoute } from './read/contract.js';
import { ContractError } from './read/document.js';
import { entries, get, type Json } from './read/json.js';
import { METHODS, type ResourceId } from './model.js';
import { toPascalCase } from './names.js';
import type { SourceFile } from './write/imports.js';

const MODULES = 'src/modules';
const FEATURES = 'src/features.ts';

/** A module whose operations all return 501, until a contract or a team replaces it, and that git has as it is. */
export interface Placeholder {
  readonly name: string;
  readonly route: string;
}

export interface Project extends Service {
  /** The kinds of ids of the tables of the platform and of other modules, by their names. */
  readonly tables: ReadonlyMap<string, ResourceId['kind']>;
  readonly placeholders: readonly Placeholder[];
  /** The newest timestamp of a migration, in milliseconds since 1970. */
  readonly latestMigration: number;
}

/**
 * Reads what the project has besides one module.
 *
 * @param module the module that is generated
 * @throws {ContractError} if a folder with its name was written by hand
 */
export async function readProject(module: string): Promise<Project> {
  const document = JSON.parse(await readFile('openapi.json', 'utf8')) as Json;
  const own = await readIfExists(`${MODULES}/${module}/${module}.api.gen.ts`);
  const sources = await readSources('src');
  const others = sources.filter(({ path }) => !path.startsWith(`${MODULES}/${module}/`));
  const operations = entries(get(document, 'paths')).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = get(item, method);
      if (operation === undefined) return [];
      const id = String(get(operation, 'operationId'));
      const isPlaceholder = !entries(get(operation, 'responses')).some(([status]) =>
        status.startsWith('2'),
      );
      return [{ route: toRoute(method, path), path, id, isPlaceholder }];
    }),
  );
  const placeholders = operations
    .filter(({ isPlaceholder }) => isPlaceholder)
    .flatMap(({ route, id }) => {
      const file = sources.find(
        ({ path, text }) =>
          path.endsWith('.controller.ts') && text.includes(`operationId: '${id}'`),
      );
      return file === undefined ? [] : [{ name: basename(dirname(file.path)), route }];
    })
    .filter(({ name }, _index, all) => {
      const count = all.filter((each) => each.name === name).length;
      return onlyReturns501(sources, name, count) && isCommitted(name);
    });
  if (
    own === undefined &&
    existsSync(`${MODULES}/${module}`) &&
    !placeholders.some(({ name }) => name === module)
  )
    throw new ContractError([
      `${MODULES}/${module} was not generated: choose another name with --module.`,
    ]);
  // Without the breaks of lines that the formatter puts into long decorators.
  const declarations = own?.replaceAll(/\s+/g, ' ') ?? '';
  const isOwn = (name: string): boolean =>
    [`class ${name} {`, `@ApiSchema({ name: '${name}'`].some((text) => declarations.includes(text));
  const schemas = entries(get(get(document, 'components'), 'schemas')).map(([name]) => name);
  const timestamps = sources.flatMap(({ path }) => /\/migrations\/(\d+)-/.exec(path)?.[1] ?? []);
  // Of a service that did not compile since an operation got another id, openapi.json has the old one.
  const foreign = operations.filter(
    ({ id }) =>
      own === undefined || others.some(({ text }) => text.includes(`operationId: '${id}'`)),
  );
  const kept = foreign.filter(({ route }) => placeholders.every((each) => each.route !== route));
  return {
    routes: new Set(kept.map(({ route }) => route)),
    paths: kept.map(({ path }) => path),
    operationIds: new Map(foreign.map(({ id, route }) => [id, route])),
    schemas: new Set(schemas.filter((name) => !isOwn(name))),
    tables: new Map([
      ['migrations', 'integer'],
      ['revisions', 'text'],
      ...others.flatMap(({ text }): [string, ResourceId['kind']][] => {
        const table = /@Entity\('([^']+)'/.exec(text)?.[1];
        const kind = /@IdColumn\([^)]*type: '(uuid|text)'/.exec(text)?.[1] ?? 'integer';
        return table === undefined ? [] : [[table, kind as ResourceId['kind']]];
      }),
    ]),
    placeholders,
    latestMigration: Math.max(...timestamps.map(Number)),
  };
}

/** Whether a folder has no other operation than its placeholders, also of those that openapi.json does not have yet. */
function onlyReturns501(sources: readonly Source[], name: string, count: number): boolean {
  const code = sources
    .filter(({ path }) => path.startsWith(`${MODULES}/${name}/`))
    .map(({ text }) => text)
    .join('\n');
  return [
    /@(Get|Put|Post|Patch|Delete|All|Head|Options|Search|Sse)\(/g,
    /notImplemented: true/g,
  ].every((pattern) => code.match(pattern)?.length === count);
}

/** Whether git has all files of a module as they are, so that what a run deletes is not lost. */
function isCommitted(name: string): boolean {
  const paths = [`${MODULES}/${name}`, `test/${name}.stubs.test.ts`];
  const git = (...args: string[]): string | undefined => {
    const { status, stdout } = spawnSync('git', [...args, '--', ...paths], { encoding: 'utf8' });
    return status === 0 ? stdout : undefined;
  };
  return git('status', '--porcelain', '--ignored') === '' && git('ls-files') !== '';
}

interface Source {
  readonly path: string;
  readonly text: string;
}

async function readSources(folder: string): Promise<Source[]> {
  const files = await readdir(folder, { recursive: true });
  return Promise.all(
    files
      .filter((file) => file.endsWith('.ts'))
      .map(async (file) => ({
        path: join(folder, file),
        text: await readFile(join(folder, file), 'utf8'),
      })),
  );
}

export const readIfExists = async (path: string): Promise<string | undefined> =>
  existsSync(path) ? readFile(path, 'utf8') : undefined;

/** Formats a file as `npm run format` does. */
export async function formatFile({ path, code }: SourceFile): Promise<string> {
  const options = { ...(await resolveConfig(path)), filepath: path };
  // Prettier formats its own result in another way, if a type that a method returns is long.
  return format(await format(code, options), options);
}

/** What a run writes and deletes. */
export class Changes {
  private readonly written = new Map<string, string>();
  private readonly deleted = new Set<string>();

  /** Writes a file, unless it has the same text already. */
  async write(file: SourceFile): Promise<void> {
    const text = await formatFile(file);
    if ((await readIfExists(file.path)) !== text) this.written.set(file.path, text);
  }

  /** Writes a file that people own: only if it does not exist, or is deleted by this run. */
  async writeOnce(file: SourceFile): Promise<void> {
    if (!existsSync(file.path) || this.deleted.has(file.path)) await this.write(file);
  }

  delete(path: string): void {
    if (existsSync(path)) this.deleted.add(path);
  }

  /** Removes a placeholder: its module, its line in the list of features, and its test. */
  async deletePlaceholder({ name }: Placeholder): Promise<void> {
    const folder = `${MODULES}/${name}`;
    for (const file of await readdir(folder, { recursive: true }))
      if (file.endsWith('.ts')) this.delete(join(folder, file));
    this.delete(`test/${name}.stubs.test.ts`);
    const className = `${toPascalCase(name)}Module`;
    const lines = new RegExp(`^.*\\b${className}\\b.*\\n`, 'gm');
    this.written.set(FEATURES, (await this.read(FEATURES)).replaceAll(lines, ''));
  }

  /** Adds a module to the list of features. */
  async addFeature(module: string): Promise<void> {
    const className = `${toPascalCase(module)}Module`;
    const features = await this.read(FEATURES);
    if (new RegExp(`\\b${className}\\b`).test(features)) return;
    const path = `./modules/${module}/${module}.module.js`;
    this.written.set(
      FEATURES,
      features
        .replace(/^import .*\n(?!import )/m, `$&import { ${className} } from '${path}';\n`)
        .replace(/^\]/m, `  ${className},\n]`),
    );
  }

  private async read(path: string): Promise<string> {
    return this.written.get(path) ?? readFile(path, 'utf8');
  }

  /** The files that it creates, updates and deletes, a line each. */
  describe(): string[] {
    const deleted = [...this.deleted].filter((path) => !this.written.has(path));
    return [
      ...[...this.written.keys()].map(
        (path) => `${existsSync(path) ? 'UPDATE' : 'CREATE'} ${path}`,
      ),
      ...deleted.map((path) => `DELETE ${path}`),
    ];
  }

  async apply(): Promise<void> {
    for (const path of this.deleted) await rm(path, { force: true });
    for (const [path, text] of this.written) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }
}
