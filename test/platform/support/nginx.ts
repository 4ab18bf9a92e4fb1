import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort } from './postgres.js';
import { commandSucceeds } from './requirements.js';

const CONFIGURATION = join(import.meta.dirname, '..', '..', '..', 'deploy', 'nginx.conf');
/** Debian's package `nginx` installs it in a folder that is not in the PATH of all users. */
const env = { PATH: `${process.env['PATH']}:/usr/sbin` };
export const hasNginx = commandSucceeds('nginx', ['-v'], env);

/** Starts nginx with the configuration of `deploy`, except for its ports, before two processes of the service. */
export async function startNginx(
  ports: readonly number[],
): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'petstore-nginx-'));
  const port = await findFreePort();
  const site = (await readFile(CONFIGURATION, 'utf8'))
    .replace('listen 80;', `listen 127.0.0.1:${port};`)
    .replace('127.0.0.1:3001 ', `127.0.0.1:${ports[0]} `)
    .replace('127.0.0.1:3002 ', `127.0.0.1:${ports[1]} `);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${directory}/${name};`)
    .join('\n');
  await writeFile(
    join(directory, 'nginx.conf'),
    `daemon off;
pid ${directory}/nginx.pid;
error_log ${directory}/error.log;
events {}
http {
  access_log off;
  ${temporary}
  ${site}
}`,
  );
  const options = ['-c', join(directory, 'nginx.conf'), '-e', `${directory}/error.log`];
  const nginx = spawn('nginx', options, { env, stdio: 'inherit' });
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      nginx.kill();
      await once(nginx, 'exit');
      await rm(directory, { recursive: true });
    },
  };
}
