import { execFile } from 'node:child_process';
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { CategoriesClient, sendRequest } from '../support/http-client.js';
import {
  addFixture,
  type Lock,
  machineEnvironment,
  readInstalled,
  readJson,
} from '../support/installation.js';
import { ServiceProcess } from '../support/service-process.js';
import { PRODUCT } from '../../../src/product.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const isRoot = process.getuid!() === 0;
/** The user that runs the service. */
const UID = isRoot ? 65_534 : process.getuid!();

const execute = promisify(execFile);

/** The directory `/app` of each stage: first with all files of the build, then with those that the image copies. */
let app: string;
/** What is not in the image: the files of the build, and Node. */
let machine: string;
/** A copy of Node that every user may run, unlike that of a checkout in a private folder. */
let node: string;
/** The environment of the service in the image. */
let env: NodeJS.ProcessEnv;

/** Runs a command beside the service, as `docker exec` does, and returns its standard output. */
async function run(...args: string[]): Promise<string> {
  return (await execute(node, args, { cwd: app, env, uid: UID })).stdout;
}

/** Starts the service with a database in `data`. */
function start(more: NodeJS.ProcessEnv = {}): ServiceProcess {
  const execPrefix = isRoot ? ['setpriv', `--reuid=${UID}`, '--clear-groups'] : [];
  const main = join(app, 'dist/main.js');
  return ServiceProcess.start(app, { env: { ...env, ...more }, execPrefix, node, main });
}

beforeAll(async () => {
  // With a dot, as a folder of a user may have.
  app = await mkdtemp(join(tmpdir(), '.petstore-image-'));
  machine = await mkdtemp(join(tmpdir(), 'petstore-machine-'));
  await chmod(machine, 0o755);
  // Nothing but what .dockerignore allows.
  const ignored = await readFile(join(ROOT, '.dockerignore'), 'utf8');
  for (const [, path] of ignored.matchAll(/^!(.+)$/gm))
    await cp(join(ROOT, path!), join(app, path!), { recursive: true });
  await addFixture(app);
  const bin = join(machine, 'bin');
  node = join(bin, 'node');
  await cp(process.execPath, node);
  const PATH = [bin, machineEnvironment['PATH']].join(delimiter);
  const build = (step: string, uid?: number): Promise<unknown> =>
    execute('sh', ['scripts/build-production.sh', step], {
      cwd: app,
      env: { ...machineEnvironment, PATH, SOURCE_COMMIT: '0dbc8e8' },
      uid,
    });
  await build('install');
  await build('build');
  await chown(join(app, 'compile-cache'), UID, UID);
  await chmod(app, 0o755);
  await build('warm', UID);
  const built = join(machine, 'app');
  await rename(app, built);
  await mkdir(app);
  const stages = (await readFile(join(ROOT, 'Dockerfile'), 'utf8')).split(/^FROM .+$/m);
  for (const [, paths] of stages.at(-1)!.matchAll(/^COPY (?:--\S+ )*(.+)$/gm)) {
    const names = paths!.replaceAll('/app/', '').split(' ');
    const target = names.pop()!;
    for (const name of names)
      await cp(
        join(built, name),
        join(app, target.endsWith('/') ? join(target, basename(name)) : target),
        {
          recursive: true,
          verbatimSymlinks: true,
        },
      );
  }
  // As COPY does.
  if (isRoot) await execute('chown', ['-R', 'root', app]);
  await execute('chmod', ['-R', 'a-w', app]);
  await chmod(join(app, 'data'), 0o755);
  await chown(join(app, 'data'), UID, UID);
  env = { PATH, NODE_ENV: 'production', NODE_COMPILE_CACHE: join(app, 'compile-cache') };
}, 1_800_000);
afterAll(() =>
  Promise.all([app, machine].map((path) => rm(path, { recursive: true, force: true }))),
);

describe('Image', () => {
  it('serves requests without root and with read-only code, creates keys and backups, and shuts down', async () => {
    const service = start();
    const url = await service.waitUntilListening();
    const categories = new CategoriesClient(
      url,
      (await run('dist/cli/keys.js', 'create', 'docker')).trim(),
    );
    expect((await categories.create('dog')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['dog']);
    for (const path of [
      '/readyz',
      '/docs',
      '/docs/swagger-ui.css',
      '/docs/errors.md',
      ...(PRODUCT.guide ?? []),
      '/openapi.json',
    ])
      expect([path, (await sendRequest(url + path)).status]).toEqual([path, 200]);
    expect(await run('dist/cli/backup.js', 'data/copy.sqlite')).toContain('integrity verified');
    expect(await run('dist/cli/migrations.js', 'run')).toContain('No migrations are pending.');
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
    const lines = service.output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(lines).toContainEqual(expect.objectContaining({ commit: '0dbc8e8' }));
    expect(service.output).not.toMatch(new RegExp(`${PRODUCT.keyPrefixes[0]}_\\w{49}`));
    for (const path of ['dist/main.js', 'node_modules/new', 'compile-cache/new', 'new'])
      await expect(run('-e', `fs.appendFileSync('${path}', '')`)).rejects.toThrow(/EACCES/);
  });

  it('starts with compiled code from the cache', async () => {
    const service = start({ NODE_DEBUG_NATIVE: 'COMPILE_CACHE' });
    await service.waitUntilListening();
    await service.stop();
    expect(service.output).toMatch(/cache for ESM \S+dist\/app\.module\.js was accepted/);
    expect(service.output).not.toMatch(/was rejected|cache for ESM \S+dist\S+ was not initialized/);
  });

  it('contains only the built service and its production dependencies', async () => {
    const development = Object.keys(
      (await readJson<{ devDependencies: object }>(ROOT, 'package.json')).devDependencies,
    );
    const folders = await readdir(join(app, 'node_modules'));
    expect(folders.filter((name) => development.includes(name))).toEqual([]);
    const lock = await readJson<Lock>(ROOT, 'package-lock.json');
    const installed = Object.keys((await readInstalled(app)).packages);
    expect(installed.length).toBeGreaterThan(50);
    expect(installed.filter((name) => lock.packages[name]?.dev !== undefined)).toEqual([]);
    const built = await readdir(join(app, 'dist'), { recursive: true });
    expect(built).toEqual(expect.arrayContaining(['main.js', 'commit', 'cli/keys.js']));
    expect(built.filter((path) => /\.(ts|env|sqlite)$|\.test\./.test(path))).toEqual([]);
  });
});
