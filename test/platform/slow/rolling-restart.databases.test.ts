/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need nginx */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase, type TestDatabase } from '../support/app.js';
import { CategoriesClient, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { findFreePort } from '../support/postgres.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type ServiceProcess,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const CONFIGURATION = join(import.meta.dirname, '..', '..', '..', 'deploy', 'nginx.conf');
/** Debian's package `nginx` installs it in a folder that is not in the PATH of all users. */
const env = { PATH: `${process.env['PATH']}:/usr/sbin` };
const hasNginx = commandSucceeds('nginx', ['-v'], env);

/** Starts nginx with the configuration of `deploy`, except for its ports, before two processes of the service. */
async function startNginx(
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

let nginx: Awaited<ReturnType<typeof startNginx>>;
let url: string;
let ports: readonly number[];
let processes: Map<number, ServiceProcess>;
let database: TestDatabase;
let services: Services;

/** Starts a process as `api@.service` does, and waits until it is ready. */
async function startProcess(port: number): Promise<void> {
  const environment = { PORT: String(port), NODE_ENV: 'production', LOG_LEVEL: 'debug' };
  processes.set(port, services.start({ env: { ...environment, TRUST_PROXY: 'loopback' } }));
  await waitUntilReady(`http://127.0.0.1:${port}`);
}

const waitUntilReady = (address: string): Promise<unknown> =>
  waitFor(() =>
    sendRequest(`${address}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );

beforeEach(async () => {
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url });
  ports = [await findFreePort(), await findFreePort()];
  processes = new Map();
  await Promise.all(ports.map(startProcess));
  nginx = await startNginx(ports);
  ({ url } = nginx);
  await waitUntilReady(url);
});
afterEach(async () => {
  await nginx.stop();
  await services.close();
  await database.drop();
});

requires('nginx', hasNginx).describe('two processes behind nginx', () => {
  it('lose no request, no create and no change in the list during a rolling restart under load', async () => {
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    load.start(url, { writers: 8, readers: 8, pause: 20 });
    try {
      await load.waitForSuccesses(20);
      for (const port of ports) {
        const former = processes.get(port)!;
        former.kill('SIGTERM');
        expect(await former.exited).toEqual({ code: 0, signal: null });
        await load.waitForSuccesses(10);
        await startProcess(port);
        await load.waitForSuccesses(10);
      }
    } finally {
      await load.stop();
    }
    for (const port of ports) {
      const categories = new CategoriesClient(`http://127.0.0.1:${port}`, BOOTSTRAP_KEY);
      load.verifyFinalState(await categories.getAll());
    }
    expect(load.violations).toEqual([]);
  });

  it('see the address of the client instead of what it claims, and its request id', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': 'from-the-client' };
    const response = await sendRequest(`${url}/v1/categories`, { headers });
    expect(response.headers['x-request-id']).toBe('from-the-client');
    const line = await waitFor(() =>
      [...processes.values()]
        .flatMap(({ output }) => output.split('\n'))
        .find((each) => each.includes('"status":401')),
    );
    expect(JSON.parse(line!)).toMatchObject({
      requestId: 'from-the-client',
      clientIp: '127.0.0.1',
    });
  });
});
