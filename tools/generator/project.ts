/** Reads the project, and writes files to it. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { ContractError, METHODS } from './model.js';
import { toPascalCase } from './names.js';
import { type Service, toRoute } from './read/contract.js';
import { entries, get, type Json } from './read/json.js';
import type { SourceFile } from './write/source.js';

const FEATURES = 'src/features.ts';

export interface Project extends Service {
  /** The tables of the platform and of other modules. */
  readonly tables: readonly string[];
  /** The newest timestamp of a migration, in milliseconds since 1970. */
  readonly latestMigration: number;
}

/**
 * Reads the routes, schemas and tables of the project, except those of one module.
 *
 * @param module the module that is generated
 * @throws {ContractError} if a folder with its name was not generated
 */
export async function readProject(module: string): Promise<Project> {
  const document = JSON.parse(await readFile('openapi.json', 'utf8')) as Json;
  const folder = `src/modules/${module}/`;
  const own = await readIfExists(`${folder}${module}.api.gen.ts`);
  if (own === undefined && existsSync(folder))
    throw new ContractError([`${folder} was not generated: choose another name with --module.`]);
  const declarations = own?.replaceAll(/\s+/g, ' ') ?? '';
  const files = (await readdir('src', { recursive: true })).filter((file) => file.endsWith('.ts'));
  const paths = files.map((file) => join('src', file).replaceAll('\\', '/'));
  const others = paths.filter((path) => !path.startsWith(folder));
  const texts = await Promise.all(others.map((path) => readFile(path, 'utf8')));
  const operations = entries(get(document, 'paths')).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const id = get(get(item, method), 'operationId');
      return typeof id !== 'string' || declarations.includes(`operationId: '${id}'`)
        ? []
        : [{ route: toRoute(method, path), id }];
    }),
  );
  const schemas = entries(get(get(document, 'components'), 'schemas')).map(([name]) => name);
  const timestamps = paths.flatMap((path) => /\/migrations\/(\d+)-/.exec(path)?.[1] ?? []);
  return {
    routes: new Set(operations.map(({ route }) => route)),
    operationIds: new Set(operations.map(({ id }) => id)),
    schemas: new Set(schemas.filter((name) => !declarations.includes(`class ${name} {`))),
    tables: ['migrations', ...texts.flatMap((text) => /@Entity\('([^']+)'/.exec(text)?.[1] ?? [])],
    latestMigration: Math.max(...timestamps.map(Number)),
  };
}

export const readIfExists = async (path: string): Promise<string | undefined> =>
  existsSync(path) ? readFile(path, 'utf8') : undefined;

/** Formats a file as `npm run format` does. */
export async function formatFile({ path, code }: SourceFile): Promise<string> {
  const options = { ...(await resolveConfig(path)), filepath: path };
  // Prettier is not idempotent if the return type of a method is long.
  return format(await format(code, options), options);
}

/** The files that a run writes. */
export class Changes {
  private readonly written = new Map<string, string>();

  /** Writes a file whose text has changed. */
  async write(file: SourceFile): Promise<void> {
    const text = await formatFile(file);
    if ((await readIfExists(file.path)) !== text) this.written.set(file.path, text);
  }

  /** Writes a file that the team owns: only if it does not exist. */
  async writeOnce(file: SourceFile): Promise<void> {
    if (!existsSync(file.path)) await this.write(file);
  }

  /** Adds a module to the list of features. */
  async addFeature(module: string): Promise<void> {
    const className = `${toPascalCase(module)}Module`;
    const features = await readFile(FEATURES, 'utf8');
    if (new RegExp(`\\b${className}\\b`).test(features)) return;
    const path = `./modules/${module}/${module}.module.js`;
    this.written.set(
      FEATURES,
      features
        .replace(/^import .*\n(?!import )/m, `$&import { ${className} } from '${path}';\n`)
        .replace(/^\]/m, `  ${className},\n]`),
    );
  }

  /** Returns a line for each file that is created or updated. */
  describe(): string[] {
    return [...this.written.keys()].map(
      (path) => `${existsSync(path) ? 'UPDATE' : 'CREATE'} ${path}`,
    );
  }

  async apply(): Promise<void> {
    for (const [path, text] of this.written) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }
}
