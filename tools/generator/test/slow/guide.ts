/** Runs commands and the guide in a copy of the project that is a git repository. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createDatabase } from '../../../../test/platform/support/app.js';
import {
  type CopyResult,
  getCommand,
  ProjectCopy,
} from '../../../../test/platform/support/project-copy.js';
import { RetryingClient } from '../../../../test/platform/support/retrying-client.js';
import {
  BOOTSTRAP_KEY,
  createServices,
} from '../../../../test/platform/support/service-process.js';
import { declare } from '../../declarations.js';
import { addImports } from '../../write/imports.js';

const SUPPLIERS = 'src/modules/suppliers';

/** What the code of the guide uses, and generated code does not. */
const DECLARATIONS = {
  ...declare('@nestjs/swagger', 'ApiTags'),
  ...declare('src/platform/auth/scope.decorator.js', 'RequireScope'),
  ...declare('src/modules/museum/museum.api.gen.js', '*OperationId'),
  ...declare('typeorm', 'TableForeignKey TableIndex TableUnique'),
  ...declare('src/platform/database/statements/constraint-error.js', 'toConstraintError'),
  ...declare('src/platform/errors/error-codes.js', '*FeatureErrorCode'),
  ...declare('src/platform/idempotency/idempotency-records.js', 'transactionOnce'),
  ...declare('src/platform/database/statements/returning.js', 'insertReturning updateReturning'),
  ...declare('test/platform/support/http-client.js', '*Category jsonHeaders sendRequest'),
  ...declare('src/modules/pets/pet.entity.js', 'PetEntity'),
  ...declare('src/modules/pets/pets.api.gen.js', 'NewPet Pet'),
  ...declare('src/modules/pets/pets.service.js', 'toPet'),
  ...declare(`${SUPPLIERS}/entities/supplier.entity.js`, 'Supplier'),
  ...declare(
    `${SUPPLIERS}/migrations/1796000000000-create-suppliers.js`,
    'CreateSuppliers1796000000000',
  ),
  ...declare(`${SUPPLIERS}/suppliers.controller.js`, 'SuppliersController'),
  ...declare(`${SUPPLIERS}/suppliers.service.js`, 'SuppliersService'),
  ...declare(`${SUPPLIERS}/dto/create-supplier.dto.js`, '*CreateSupplierDto'),
  ...declare(`${SUPPLIERS}/dto/update-supplier.dto.js`, '*UpdateSupplierDto'),
};

/** docs/adding-a-module.md, and the project that it is carried out in. */
export class Guide {
  private constructor(
    readonly copy: ProjectCopy,
    private readonly text: string,
  ) {}

  static async create(): Promise<Guide> {
    const copy = await ProjectCopy.create();
    const guide = new Guide(copy, await readFile(copy.resolve('docs/adding-a-module.md'), 'utf8'));
    await guide.git('init', '--quiet', '--initial-branch=main');
    await guide.commit('Initial state');
    return guide;
  }

  /** Run a command, and return its output. They throw if it fails. */
  readonly run = (...args: Parameters<ProjectCopy['run']>): Promise<string> =>
    succeed(this.copy.run(...args));
  readonly git = (...args: string[]): Promise<string> => succeed(this.copy.git(...args));
  readonly npm = (...args: string[]): Promise<string> => succeed(this.copy.npm(...args));

  async commit(message: string): Promise<void> {
    await this.git('add', '--all');
    await this.git('commit', '--quiet', '--message', message);
  }

  /** Returns the only code block that contains a text. */
  getBlock(language: 'sh' | 'ts', text: string): string {
    const blocks = [...this.text.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
    const [found, ...others] = blocks.filter(
      ([, name, code]) => name === language && code!.includes(text),
    );
    if (found === undefined || others.length > 0)
      throw new Error(`The guide must have one block with: ${text}`);
    return found[2]!;
  }

  /** Runs the commands of a block, or only the first ones, and returns their output. */
  async runBlock(text: string, count = Infinity): Promise<string> {
    const commands = this.getBlock('sh', text).split(/(?<!\\)\n/);
    return this.run('sh', ['-ec', commands.slice(0, count).join('\n')]);
  }

  /** Writes a file: code, or a block of the guide, with the imports that an editor adds. */
  writeCode(path: string, code: string): Promise<void> {
    return this.write(path, addImports(path, code, DECLARATIONS));
  }

  writeBlock(path: string, text: string): Promise<void> {
    return this.writeCode(path, this.getBlock('ts', text));
  }

  async write(path: string, code: string): Promise<void> {
    await mkdir(dirname(this.copy.resolve(path)), { recursive: true });
    await writeFile(this.copy.resolve(path), code);
  }

  /**
   * Runs every check on generated modules, and their tests on both databases.
   *
   * @param contracts the paths of their contracts, by the names of the modules
   * @param tests those to run: by default, the whole fast tier
   * @returns the contracts that the document differs from, and the tests that did not run
   * @throws {Error} with the output of a check that fails
   */
  async check(
    contracts: Readonly<Record<string, string>>,
    tests: readonly string[],
  ): Promise<string[]> {
    await this.git('add', '--intent-to-add', '.');
    const changed = await this.git('diff', '--name-only', '--diff-filter=d', 'HEAD');
    const files = changed.trim().split('\n');
    const sources = files.filter((path) => path.endsWith('.ts'));
    await this.npm('typecheck');
    await this.run(getCommand('oxlint'), ['--type-aware', '--deny-warnings', ...sources]);
    await this.run(getCommand('depcruise'), ['src']);
    await this.run(getCommand('prettier'), ['--check', ...files]);
    // Not OWASP's rules: what they find is in the contracts.
    await this.run(getCommand('redocly'), ['lint', 'openapi.json']);
    const different: string[] = [];
    for (const file of Object.values(contracts)) {
      const output = await this.npm('openapi:check', '--', '--contract', file);
      if (!output.includes(': 0\n')) different.push(output);
    }
    const output = await this.npm('test', '--', ...tests);
    const passes = Object.keys(contracts).flatMap((module) =>
      ['sqlite', 'postgres'].map((type) => `PASS ${type} test/${module}.databases.test.ts`),
    );
    return [...different, ...passes.filter((line) => !output.includes(line))];
  }

  /** Generates a module, and returns the report; `again` without compiling the generator. */
  readonly generate = (path: string): Promise<string> => this.npm('generate', '--', 'from', path);
  readonly generateAgain = (path: string, ...options: readonly string[]): Promise<string> =>
    this.run(process.execPath, ['build/tools/generator/generate.js', 'from', path, ...options]);

  /** Starts the service on a new database. */
  async serve(type: 'sqlite' | 'postgres') {
    const services = await createServices();
    const database = await createDatabase(type);
    const main = this.copy.resolve('dist/main.js');
    const { url } = await services.serve({ main, env: { DATABASE_URL: database.url } });
    const client = new RetryingClient(url, BOOTSTRAP_KEY);
    const close = async (): Promise<void> => {
      client.close();
      await services.close();
      await database.drop();
    };
    return { client, url, close };
  }

  /** Replaces texts of a file, all of which must exist. */
  async edit(path: string, replacements: Readonly<Record<string, string>>): Promise<void> {
    let code = await readFile(this.copy.resolve(path), 'utf8');
    for (const [before, after] of Object.entries(replacements)) {
      if (!code.includes(before)) throw new Error(`${path} lacks ${before}:\n${code}`);
      code = code.replaceAll(before, () => after);
    }
    await writeFile(this.copy.resolve(path), code);
  }
}

async function succeed(command: Promise<CopyResult>): Promise<string> {
  const { failed, output } = await command;
  // The names of the files that passed hide those that failed.
  if (failed) throw new Error(output.replaceAll(/^PASS .*\n/gm, ''));
  return output;
}
