import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getRelease } from '../../../src/platform/config/product.js';
import { createDatabase, startApp, type TestDatabase } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { type CommandResult, startProgram } from '../support/cli.js';
import { CategoriesClient, type Category, sendRequest } from '../support/http-client.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

/** What only the first startup prints. */
const KEY_OR_BANNER = new RegExp(`${PRODUCT.keyPrefixes[0]}_\\w{49}|curl|shown only`);

let services: Services;

async function closeServices(): Promise<void> {
  await services.close();
  for (const { output } of services.started) {
    const [text = '', key = BOOTSTRAP_KEY] = parseInitialKeyBanner(output) ?? [];
    const log = output.replace(text, '');
    const leaked = [BOOTSTRAP_KEY, key].filter((secret) => log.includes(secret));
    if (leaked.length > 0) throw new Error(`The output contains the keys ${leaked.join(', ')}`);
  }
}

/** Parses the API key and the curl command that the first start prints. */
const parseInitialKeyBanner = (output: string) =>
  /API key \(shown only once\): +(?<key>\S+)\s+curl -H 'Authorization: (?<authorization>[^']+)' (?<address>\S+)/.exec(
    output,
  );

describe('a service process that is restarted', () => {
  let database: TestDatabase;
  let env: NodeJS.ProcessEnv;
  let first: RunningService;
  let key: string;
  beforeAll(async () => {
    services = await createServices();
    database = await createDatabase();
    env = { BOOTSTRAP_API_KEY: '', DATABASE_URL: database.url };
    first = await services.serve({ env });
    await waitFor(
      () => first.service.stdout,
      (output) => output.includes('/docs'),
    );
    key = parseInitialKeyBanner(first.service.stdout)![1]!;
  });
  afterAll(async () => {
    await closeServices();
    await database.drop();
  });

  it('creates one API key at the first startup, and prints it once with a curl command and the URLs', async () => {
    const { stdout } = first.service;
    const [, , authorization, address] = parseInitialKeyBanner(stdout)!;
    expect(key).toMatch(new RegExp(`^${PRODUCT.keyPrefixes[0]}_[A-Za-z0-9]{49}$`));
    expect(stdout.split(key)).toHaveLength(3);
    // A file or a pipe gets no colors.
    expect(stdout).not.toContain('\u001b');
    expect(address).toBe(`${first.url}/v1/categories`);
    const response = await sendRequest(address!, { headers: { authorization } });
    expect(response.status).toBe(200);
    expect(response.json()).toEqual([]);
    expect(stdout).toContain(`${first.url}/docs`);
  });

  it('keeps the key and every acknowledged create after SIGTERM, and after SIGKILL (durability)', async () => {
    const categories = new CategoriesClient(first.url, key);
    const created = [await categories.create('dog'), await categories.create('cat')];
    expect(created.map(({ status }) => status)).toEqual([201, 201]);
    first.service.kill('SIGTERM');
    expect(await first.service.exited).toEqual({ code: 0, signal: null });

    const second = await services.serve({ env });
    const client = new CategoriesClient(second.url, key);
    await waitFor(() => /API keys: 1\. .*\n[^]+\/docs\n/.test(second.service.stdout));
    expect(await client.getAll()).toEqual(created.map((each) => each.json()));
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) => client.create(`category ${index}`)),
    );
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
    second.service.kill('SIGKILL');
    expect(await second.service.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(second.service.output).not.toMatch(KEY_OR_BANNER);

    const app = await startApp({ database });
    const list = await new CategoriesClient(app.url, key).getAll();
    await app.stop();
    const expected = [...created, ...responses].map((response) => response.json<Category>());
    expect(list).toEqual(expected.toSorted((a, b) => a.id - b.id));
  });
});

describe('a service process in production with a .env file', () => {
  let production: RunningService;
  beforeAll(async () => {
    services = await createServices();
    // The command that the log quotes reads this file, too.
    const text = 'NODE_ENV=production\nDATABASE_URL=sqlite:other.sqlite\n';
    await writeFile(join(services.directory, '.env'), text);
    production = await services.serve({ env: { BOOTSTRAP_API_KEY: '' } });
  });
  afterAll(closeServices);

  it('prints no key, but logs the command that creates one, until one exists', async () => {
    const { service, url } = production;
    const quoted = await waitFor(
      () => /No API keys exist\. Create one with: node (dist\S+)( [^"]+)"/.exec(service.output),
      (found) => found !== null,
    );
    const command = `node ${getBuiltFile(quoted![1]!.replace('dist', 'src'))}${quoted![2]}`;
    const options = { cwd: services.directory };
    const { stdout } = await startProgram('sh', ['-c', command], options).result;
    expect((await new CategoriesClient(url, stdout.trim()).list()).status).toBe(200);
    expect(service.output).not.toMatch(KEY_OR_BANNER);
    const restarted = await services.serve({ env: { BOOTSTRAP_API_KEY: '' } });
    await sendRequest(`${restarted.url}/readyz`);
    await restarted.service.stop();
    expect(restarted.service.output).not.toContain('No API keys exist');
  });
});

const runMain = (option: string, cwd?: string): Promise<CommandResult> =>
  startProgram(process.execPath, [getBuiltFile('src/main.js'), option], cwd ? { cwd } : {}).result;

describe('main.js', () => {
  it('prints the version, and the commit if it is known, with --version', async () => {
    const stdout = `${getRelease(PRODUCT)}\n`;
    expect(await runMain('--version')).toEqual({ code: 0, stdout, stderr: '' });
  });

  it('prints how it is used with --help, and neither starts nor creates a database', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'petstore-help-'));
    const printed = await runMain('--help', cwd);
    expect(printed.stdout).toContain('node dist/cli/check.js checks the configuration');
    const stderr = expect.stringContaining("unknown option '--halp'") as string;
    expect(await runMain('--halp', cwd)).toMatchObject({ code: 1, stderr });
    expect(await readdir(cwd)).toEqual([]);
    await rm(cwd, { recursive: true });
  });
});

describe('a service process that cannot start', () => {
  it('ends startup with exit code 1 and one line with the cause, and never the value of a variable', async () => {
    services = await createServices();
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const invalid = { PORT: 'SECRET1', LOG_LEVEL: 'SECRET2', NODE_ENV: 'production' };
    const failures: [NodeJS.ProcessEnv, RegExp][] = [
      [invalid, /^\{"level":"fatal",.*PORT must .*LOG_LEVEL must .*\n$/],
      [{ PORT: String(port) }, /Failed to listen on 127\.0\.0\.1:\d+ \(HOST, PORT\): .*EADDRINUSE/],
    ];
    const started = failures.map(([env]) => services.start({ env }));
    for (const [index, service] of started.entries()) {
      expect(await service.exited).toEqual({ code: 1, signal: null });
      expect(service.stderr).toMatch(failures[index]![1]);
      expect(service.stderr.trimEnd()).not.toContain('\n');
      expect(service.output).not.toContain('SECRET');
    }
    other.close();
    await closeServices();
  });
});
