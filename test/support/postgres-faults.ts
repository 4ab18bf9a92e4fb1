import { execFile } from 'node:child_process';
import { rename } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Client } from 'pg';
import { isRunning, type PostgresServer } from './postgres.js';
import { connectToPostgres } from './postgres-client.js';
import { waitFor } from './wait.js';

/**
 * Suspends every process of a server with SIGSTOP. Its connections stay open and the kernel still
 * accepts new ones, but the server does not respond.
 *
 * @returns an idempotent function that resumes the server
 */
export async function freeze(server: PostgresServer): Promise<() => Promise<void>> {
  const { client, pids } = await suspendProcesses(server);
  let frozen = true;
  return async () => {
    if (!frozen) return;
    frozen = false;
    for (const pid of pids) signal(pid, 'SIGCONT');
    await client.end();
  };
}

/** Kills every process of a server with SIGKILL, simulating a machine failure. */
export async function kill(server: PostgresServer): Promise<void> {
  // Suspended first, so that no process is started or cleans up in the meantime.
  const { pids } = await suspendProcesses(server);
  for (const pid of pids) signal(pid, 'SIGKILL');
  const [postmaster] = pids;
  await waitFor(
    () => isRunning(postmaster!),
    (running) => !running,
  );
}

/** Restarts a server after `kill`. */
export async function restart(server: PostgresServer): Promise<void> {
  // Startup fails while a process of the killed server still holds its shared memory.
  await waitFor(() =>
    server.start().then(
      () => true,
      () => false,
    ),
  );
}

/**
 * Copies the data of a server to a standby that receives no later transaction.
 *
 * @returns a function that kills the server and starts the standby in its place
 */
export async function createStandby(server: PostgresServer): Promise<() => Promise<void>> {
  await kill(server);
  // It keeps the owner of the files.
  await promisify(execFile)('cp', ['-a', server.data, `${server.data}-standby`]);
  await restart(server);
  return async () => {
    await kill(server);
    await rename(server.data, `${server.data}-failed`);
    await rename(`${server.data}-standby`, server.data);
    await restart(server);
  };
}

/**
 * Suspends the postmaster, which starts all other processes, and then the others.
 *
 * @returns the process ids, the postmaster's first, and a connection that hangs like all others
 */
async function suspendProcesses(
  server: PostgresServer,
): Promise<{ client: Client; pids: number[] }> {
  const client = await connectToPostgres(server.url);
  const postmaster = await server.pid();
  signal(postmaster, 'SIGSTOP');
  const { rows } = await client
    .query<{ pid: number }>(
      'SELECT "pid" FROM pg_stat_activity ORDER BY "pid" = pg_backend_pid(), "pid"',
    )
    .catch((error: unknown) => {
      signal(postmaster, 'SIGCONT');
      throw error;
    });
  const others = rows.map(({ pid }) => pid);
  for (const pid of others) signal(pid, 'SIGSTOP');
  return { client, pids: [postmaster, ...others] };
}

/** Sends a signal to a process unless it has exited. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
