/** `npm run preview -- library.openapi.yaml`: serves what the generator makes of a contract, from a temporary copy. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { Command } from 'commander';
import { TERMINATION_SIGNALS } from '../../src/platform/application/termination-signals.js';
import { toCommands } from './commands.js';
import { generate } from './generator.js';
import { addContractOptions, type ContractOptions, toModuleName } from './options.js';
import { readContractFile } from './overlay.js';
import { ContractError } from './read/document.js';
import { formatReport } from './report.js';

/** Its temporary folders are named `petstore-preview-<pid>-<random>`. */
const PREFIX = 'petstore-preview-';

/** What the service is built from, besides the module. */
const SOURCES = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'src'];

interface PreviewOptions extends ContractOptions {
  readonly module?: string;
}

let stop = (): void => process.exit();
for (const signal of TERMINATION_SIGNALS) process.on(signal, () => stop());
// The shell between npm and this process does not pass signals on.
const parent = process.ppid;
setInterval(() => process.ppid === parent || stop(), 500).unref();

await addContractOptions(new Command('npm run preview --'))
  .description('Serve the module of a contract on SQLite, from a temporary copy, until Ctrl-C.')
  .argument('<contract>', 'OpenAPI 3.0 to 3.2 or Swagger 2.0; - is standard input')
  .option('--module <name>', 'name of the module (default: that of the file, up to the first dot)')
  .action(async (contract: string, options: PreviewOptions) => {
    try {
      await preview(contract, options);
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      console.error(error.message);
      process.exit(1);
    }
  })
  .parseAsync();

async function preview(contract: string, options: PreviewOptions): Promise<void> {
  const folder = createFolder();
  const file = contract === '-' ? await saveInput(folder) : contract;
  const { root } = await readContractFile(file, options.overlay);
  // git status must not update the index.
  process.env['GIT_OPTIONAL_LOCKS'] = '0';
  const name = toModuleName(file, options.module);
  const source = basename(file);
  const { prefix } = options;
  const { module, changes, results } = await generate(root, { name, source, prefix });
  if (module.resources.length === 0)
    throw new ContractError([
      `${contract}: nothing to preview, because all ${module.operations.length} operations would return 501; npm run generate -- from ${contract} --dry-run says why.`,
    ]);
  for (const path of SOURCES) cpSync(path, join(folder, path), { recursive: true });
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'), 'junction');
  process.chdir(folder);
  await changes.apply();
  compile(contract);
  const key = `preview-${randomBytes(24).toString('base64url')}`;
  const url = await serve(folder, key);
  console.log(`${formatReport(module, results)}

  Swagger UI  ${url}/docs
  API         ${url}${module.prefix || '/v1'}
  API key     ${key}

${(await toCommands(module, url, key)).join('\n\n')}

Press Ctrl-C to stop the service and remove its data.`);
}

/** Makes the folder of this process, removed when it exits, and removes those of processes that were killed. */
function createFolder(): string {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = name.match(`^${PREFIX}(\\d+)-`) ?? [];
    if (pid !== undefined && !isRunning(Number(pid))) remove(join(tmpdir(), name));
  }
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  process.on('exit', () => remove(folder));
  return folder;
}

/** Whether another process has an id: this one has no folder yet. */
function isRunning(pid: number): boolean {
  try {
    return pid !== process.pid && process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function remove(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    // Another user's, or in use: the next run tries again.
  }
}

/** Saves standard input in a folder of its own, because references lead to files in the folder of a document. */
async function saveInput(folder: string): Promise<string> {
  const file = join(folder, 'input', 'preview.openapi.yaml');
  mkdirSync(join(folder, 'input'));
  await writeFile(file, await text(process.stdin));
  return file;
}

/** Compiles the service in the working directory. */
function compile(contract: string): void {
  const args = ['node_modules/typescript-7/bin/tsc', '-p', 'tsconfig.build.json'];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0)
    throw new ContractError([
      `${contract}: the code of the module has to be changed first, as npm run generate -- from ${contract} says:`,
      ...stdout.trim().split('\n'),
    ]);
}

/** What is used of the compiled service, which only src/app.ts and src/platform/config/config.ts export. */
interface App {
  listen(port: number, host: string): Promise<void>;
  getUrl(): Promise<string>;
  close(): Promise<void>;
}

/** Starts the service on a free port, in this process, so that neither outlives the other. @returns its URL */
async function serve(folder: string, key: string): Promise<string> {
  const load = <Value>(file: string): Promise<Value> =>
    import(pathToFileURL(join(folder, 'dist', file)).href) as Promise<Value>;
  const { createApp } = await load<{
    createApp: (config: unknown, root: unknown) => Promise<App>;
  }>('platform/application/create-app.js');
  const { loadConfig } = await load<{
    loadConfig: (product: unknown, environment: NodeJS.ProcessEnv) => unknown;
  }>('platform/config/config.js');
  const { AppModule } = await load<{ AppModule: unknown }>('app.module.js');
  const { PRODUCT } = await load<{ PRODUCT: unknown }>('product.js');
  const config = loadConfig(PRODUCT, { BOOTSTRAP_API_KEY: key, LOG_LEVEL: 'warn' });
  const app = await createApp(config, AppModule);
  await app.listen(0, '127.0.0.1');
  stop = () => void app.close().finally(() => process.exit());
  return app.getUrl();
}
