import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort } from './postgres.js';
import { queryPostgres } from './postgres-client.js';
import { commandSucceeds } from './requirements.js';
import { waitFor } from './wait.js';

/** Debian's package `pgbouncer` installs it in a folder that is not in the PATH of all users. */
const env = { PATH: `${process.env['PATH']}:/usr/sbin` };
export const hasPgBouncer = commandSucceeds('pgbouncer', ['--version'], env);

/** Starts PgBouncer with its defaults, but for the mode and the number of its connections. */
export async function startPgBouncer(
  url: string,
): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> {
  const target = new URL(url);
  const directory = await mkdtemp(join(tmpdir(), 'petstore-pgbouncer-'));
  await chmod(directory, 0o755);
  const port = await findFreePort();
  await writeFile(join(directory, 'users'), `"${target.username}" "${target.password}"\n`);
  await writeFile(
    join(directory, 'pgbouncer.ini'),
    `[databases]
* = host=${target.hostname} port=${target.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(directory, 'users')}
pool_mode = transaction
default_pool_size = 2
`,
  );
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const pgBouncer = spawn('pgbouncer', ['-q', ...user, join(directory, 'pgbouncer.ini')], {
    env,
    stdio: 'ignore',
  });
  const { href } = Object.assign(target, { port: String(port) });
  await waitFor(() =>
    queryPostgres(href, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  );
  return {
    url: href,
    stop: async () => {
      pgBouncer.kill();
      await once(pgBouncer, 'exit');
      await rm(directory, { recursive: true });
    },
  };
}
