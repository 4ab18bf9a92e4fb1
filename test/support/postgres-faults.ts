import { Client } from 'pg';
import { isRunning, type PostgresServer } from './postgres.js';
import { waitFor } from './wait.js';

/** Milliseconds in which a killed process is gone, and a killed server is started again. */
const DEATH_LIMIT = 20_000;
const RESTART_LIMIT = 20_000;

/**
 * Stops every process of a server with SIGSTOP: its connections stay open, the kernel still takes
 * new ones, and nothing is answered.
 *
 * @returns what lets the server go on; calling it again does nothing
 */
export async function freeze(server: PostgresServer): Promise<() => Promise<void>> {
  const { client, pids } = await stopProcesses(server);
  let frozen = true;
  return async () => {
    if (!frozen) return;
    frozen = false;
    for (const pid of pids) signal(pid, 'SIGCONT');
    await client.end();
  };
}

/** Ends every process of a server with SIGKILL, as a machine does that fails. */
export async function kill(server: PostgresServer): Promise<void> {
  // Stopped first: so nobody starts, and nobody tidies up.
  const { pids } = await stopProcesses(server);
  for (const pid of pids) signal(pid, 'SIGKILL');
  const [postmaster] = pids;
  await waitFor(
    () => isRunning(postmaster!),
    (running) => !running,
    DEATH_LIMIT,
  );
}

/** Starts a server again that was killed. */
export async function restart(server: PostgresServer): Promise<void> {
  // It ends at once as long as a process of the killed server still holds its memory.
  await waitFor(
    () =>
      server.start().then(
        () => true,
        () => false,
      ),
    Boolean,
    RESTART_LIMIT,
  );
}

/**
 * Stops the postmaster, which then starts no more processes, and after it all others.
 *
 * @returns their process ids, the postmaster's first, and a connection that hangs like all others
 */
async function stopProcesses(server: PostgresServer): Promise<{ client: Client; pids: number[] }> {
  const client = new Client({ connectionString: server.url });
  client.on('error', () => undefined);
  await client.connect();
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

/** Sends a signal; a process that has ended since needs none. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
