import { isRunning, type PostgresServer } from './postgres.js';
import { connectToPostgres } from './postgres-client.js';
import { waitFor } from './wait.js';

/** Kills every process of a server with SIGKILL, simulating a machine failure. */
export async function kill(server: PostgresServer): Promise<void> {
  // Suspended first, so that no process is started or cleans up in the meantime.
  const pids = await suspendProcesses(server);
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
 * Suspends the postmaster, which starts all other processes, and then the others.
 *
 * @returns the process ids, the postmaster's first
 */
async function suspendProcesses(server: PostgresServer): Promise<number[]> {
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
  return [postmaster, ...others];
}

/** Sends a signal to a process unless it has exited. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
