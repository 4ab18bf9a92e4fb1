/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need nginx */
/**
 * Runs the commands of docs/install.md in a clone, in their order. `/opt`, `/etc` and `/var` are in a temporary directory,
 * nginx is Debian's, and systemctl, useradd and runuser have stand-ins.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { CategoriesClient, jsonHeaders, sendRequest } from '../support/http-client.js';
import {
  addFixture,
  cloneProject,
  expectSbom,
  machineEnvironment,
} from '../support/installation.js';
import { LoadGenerator } from '../support/load-generator.js';
import { findFreePort } from '../support/postgres.js';
import { queryPostgres } from '../support/postgres-client.js';
import { requires } from '../support/requirements.js';
import { listen, type TestServer } from '../support/server.js';
import { type Block, readBlocks } from '../support/snippets.js';
import { waitFor } from '../support/wait.js';

const PATH = [machineEnvironment['PATH'], '/usr/sbin'].join(delimiter);
const SERVER = process.env['TEST_DATABASE_URL']!;
/** Stands for the name in those of roles and the database, which are of the whole server. */
const DATABASE = `test_${randomUUID().replaceAll('-', '')}`;
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';

/** Runs each instance as the unit says, but not as another user, and without restrictions. */
const SYSTEMCTL = `#!/bin/sh
set -e
start() {
  unit=/etc/systemd/system/api@.service
  mkdir -p /var/lib/api /var/cache/api
  cd /opt/api
  ( set -a
    eval "$(sed -n 's/^Environment=//p' $unit | sed "s/%i/$1/g; s#%S#/var/lib#; s#%C#/var/cache#")"
    . /etc/api.env
    exec $(sed -n 's/^ExecStart=//p' $unit)
  ) >> /var/log/api@$1 2>&1 &
  echo $! > /var/run/api@$1
}
stop() {
  [ -e /var/run/api@$1 ] || return 0
  pid=$(cat /var/run/api@$1)
  rm /var/run/api@$1
  kill $pid
  while grep -q '^State:.*[SRD] ' /proc/$pid/status 2>&1; do sleep 0.1; done
}
action=$1
shift
if [ "$1" = --now ]; then action=start; shift; fi
for unit; do
  instance=\${unit#api@}
  case $action:$unit in
    enable:api@[12]) ;;
    start:api@[12]) start $instance ;;
    restart:api@[12]) stop $instance; start $instance ;;
    stop:api@\\*) for file in /var/run/api@*; do stop \${file##*@}; done ;;
    reload:nginx) nginx -s reload ;;
    *) exit 1 ;;
  esac
done
`;
const STAND_INS = {
  systemctl: SYSTEMCTL,
  useradd: '#!/bin/sh\n',
  runuser: '#!/bin/sh\nshift 3\nexec "$@"\n',
  nginx:
    '#!/bin/sh\nPATH=${PATH#*:} exec nginx -c /etc/nginx/nginx.conf -e /var/log/nginx/error.log "$@"\n',
};

const execute = promisify(execFile);

let directory: string;
let checkout: string;
let blocks: readonly Block[];
let collector: TestServer;
/** What the collector of traces has received. */
let exported = '';
/** The ports of nginx, and of the instances without the last digit: of the API, and of the metrics. */
let ports: readonly string[];
let key: string;

/** Replaces the paths and addresses of the guide by those of this test. */
const relocate = (text: string): string =>
  text
    .replaceAll(/(?<![\w/.-])\/(?=(?:opt|etc|var)\/)/g, `${directory}/`)
    .replaceAll(/(?<=PORT=|:)300(?=[12%$])/g, ports[1]!)
    .replaceAll('946%i', `${ports[2]}%i`)
    .replaceAll('http://127.0.0.1:4318', collector.url)
    .replaceAll(/(?<=^install .*)-o \w+ /gm, '')
    .replaceAll(
      /postgres:\/\/(\w+):([\w-]+)@db\.example\/\w+/g,
      (_url, role: string, password: string) => getUrl(role.replace('api', DATABASE), password),
    );

const getUrl = (username: string, password: string): string =>
  Object.assign(new URL(SERVER), { username, password, pathname: DATABASE }).href;

/** Runs commands in the checkout, where the function of the guide is defined, and returns their standard output. */
async function run(commands: string): Promise<string> {
  const [installation] = blocks.flatMap(({ code }) => /^\w+\(\) .*\n.*$/m.exec(code) ?? []);
  const env = {
    ...machineEnvironment,
    PATH: [join(directory, 'bin'), PATH].join(delimiter),
    LOG_LEVEL: 'debug',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  const script = relocate(`set -euo pipefail\n${installation}\n${commands}`);
  return (await execute('bash', ['--norc', '-c', script], { cwd: checkout, env })).stdout;
}

/** Runs the only block of commands that contains a text. */
async function runBlock(text: string): Promise<string> {
  const found = blocks.filter(({ language, code, notRun }) => {
    return language === 'sh' && notRun === undefined && code.includes(text);
  });
  expect(found).toHaveLength(1);
  executed.add(found[0]!);
  return run(found[0]!.code);
}
const executed = new Set<Block>();

/** Returns the URL of an instance, or of nginx. */
const getAddress = (instance?: 1 | 2): string =>
  `http://127.0.0.1:${instance === undefined ? ports[0] : `${ports[1]}${instance}`}`;

const waitUntilReady = (...instances: (1 | 2)[]): Promise<unknown> =>
  Promise.all(
    instances.map((instance) =>
      waitFor(() =>
        sendRequest(`${getAddress(instance)}/readyz`).then(
          ({ status }) => status === 200,
          () => false,
        ),
      ),
    ),
  );

const readText = (path: string): Promise<string> => readFile(join(directory, path), 'utf8');

/** Copies Debian's configuration of nginx with another port, and starts it. */
async function startNginx(): Promise<void> {
  const folder = join(directory, 'etc/nginx');
  await cp('/etc/nginx', folder, { recursive: true, dereference: true });
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (each) => `${each}_temp_path /var/lib/nginx/${each};`,
  );
  for (const file of [`${folder}/nginx.conf`, `${folder}/sites-enabled/default`]) {
    const text = (await readFile(file, 'utf8'))
      .replace('/run/nginx.pid', '/var/run/nginx.pid')
      .replace('http {', `http { ${temporary.join(' ')}`)
      .replace(/listen \[::\]:80 .*;/, '')
      .replace('listen 80 ', `listen 127.0.0.1:${ports[0]} `);
    await writeFile(file, relocate(text));
  }
  await run('nginx');
}

const isInstalled = existsSync('/etc/nginx/sites-enabled/default');
const nginx = requires("Debian's nginx", isInstalled);

beforeAll(async () => {
  if (!isInstalled) return;
  blocks = await readBlocks('docs/install.md');
  collector = await listen((request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => (exported += text));
    request.on('end', () => response.end('{}'));
  });
  ports = await Promise.all(
    [undefined, -1, -1].map(async (end) => String(await findFreePort()).slice(0, end)),
  );
  directory = await mkdtemp(join(tmpdir(), 'petstore-install-'));
  checkout = join(directory, 'checkout');
  await cloneProject(checkout);
  await addFixture(checkout);
  for (const file of [`deploy/api@.service`, 'deploy/nginx.conf']) {
    const text = (await readText(`checkout/${file}`)).replace(
      'listen 80;',
      `listen 127.0.0.1:${ports[0]};`,
    );
    await writeFile(join(checkout, file), relocate(text));
  }
  for (const folder of 'bin opt etc/systemd/system var/run var/log/nginx var/lib/nginx var/backups'.split(
    ' ',
  ))
    await mkdir(join(directory, folder), { recursive: true });
  for (const [command, script] of Object.entries(STAND_INS))
    await writeFile(join(directory, 'bin', command), relocate(script), {
      mode: 0o755,
    });
  await symlink(process.execPath, join(directory, 'bin/node'));
});
afterAll(async () => {
  if (!isInstalled) return;
  await run(`systemctl stop 'api@*'; nginx -s stop`);
  collector.close();
  await queryPostgres(SERVER, `DROP DATABASE IF EXISTS ${DATABASE} WITH (FORCE)`);
  for (const role of [DATABASE, `${DATABASE}_user`, `${DATABASE}_owner`])
    await queryPostgres(SERVER, `DROP ROLE IF EXISTS ${role}`);
  await rm(directory, { recursive: true, force: true });
});

// Each continues with what the previous one has left.
nginx.describe('docs/install.md', () => {
  it('builds and installs the service, which responds to the key that it creates', async () => {
    const before = await run('git status --porcelain');
    key = (await runBlock('build-production.sh')).trim().split('\n').at(-1)!;
    expect(await run('git status --porcelain')).toBe(before);
    await expectSbom(checkout);
    await waitUntilReady(1);
    const { status, text } = await new CategoriesClient(getAddress(1), key).list();
    expect([status, text]).toEqual([200, '[]']);
    const release = await run(`node /opt/api/dist/main.js --version`);
    const commit = (await run('git rev-parse HEAD')).trim();
    expect(release).toMatch(new RegExp(`^\\d+\\.\\d+\\.\\d+ \\(${commit}\\)\n$`));
    for (const command of ['keys', 'backup', 'db-copy', 'migrations', 'openapi'])
      expect(await run(`api ${command} --version`)).toBe(release);
  });

  it("serves two processes behind nginx, instead of Debian's site", async () => {
    await startNginx();
    expect((await sendRequest(`${getAddress()}/readyz`)).status).toBe(404);
    await runBlock('nginx -t');
    await waitUntilReady(1, 2);
    await waitFor(async () => (await sendRequest(`${getAddress()}/readyz`)).status === 200);
    const document = (await sendRequest(`${getAddress()}/openapi.json`)).text;
    expect(document).toContain(`https://api.example/v1`);
  });

  it('upgrades without a failed request, while nginx logs that a process refuses connections', async () => {
    const load = new LoadGenerator(key);
    const url = getAddress();
    load.start(url, { writers: 4, readers: 4, pause: 20 });
    await load.waitForSuccesses(20);
    await runBlock('for instance in');
    await load.waitForSuccesses(20);
    await load.stop();
    load.verifyFinalState(await new CategoriesClient(url, key).getAll());
    expect(load.violations).toEqual([]);
    expect(await readText('var/log/nginx/error.log')).toContain(
      'connect() failed (111: Connection refused) while connecting to upstream',
    );
    expect((await readdir(join(directory, 'opt'))).toSorted()).toEqual(['api', `api.old`]);
  });

  it('makes a backup of a running service, and restores it', async () => {
    const client = new CategoriesClient(getAddress(), key);
    const before = await client.getAll();
    await runBlock(' backup /');
    expect((await client.create('after the backup')).status).toBe(201);
    const restore = (await readBlocks('docs/runbook.md')).filter(({ code }) =>
      code.includes('former.XXX'),
    );
    expect(restore).toHaveLength(1);
    await run(restore[0]!.code);
    await waitUntilReady(1, 2);
    expect(await client.getAll()).toEqual(before);
    expect(before.length).toBeGreaterThan(20);
  });

  it('copies the database to PostgreSQL, where a role of the service may not change the schema', async () => {
    const client = new CategoriesClient(getAddress(), key);
    const before = await client.getAll();
    const [{ code: sql }] = blocks.filter(({ language }) => language === 'sql') as [Block];
    const [roles, grants] = sql.replaceAll('api', DATABASE).split(`\\connect ${DATABASE}\n`);
    // One query for all would be a transaction.
    for (const statement of roles!.split(';')) await queryPostgres(SERVER, statement);
    await queryPostgres(Object.assign(new URL(SERVER), { pathname: DATABASE }).href, grants!);
    await runBlock(' db-copy ');
    await waitUntilReady(1, 2);
    expect(await client.getAll()).toEqual(before);
    const user = getUrl(DATABASE, 'secret-2');
    await expect(queryPostgres(user, 'DROP TABLE "categories"')).rejects.toMatchObject({
      code: '42501',
    });
  });

  it('exports spans of requests and statements, and logs the id of the trace', async () => {
    await runBlock('tracing.mjs');
    await waitUntilReady(1, 2);
    const response = await sendRequest(`${getAddress(1)}/v1/categories`, {
      method: 'POST',
      headers: { ...jsonHeaders(key), traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` },
      body: '{"name":"dog"}',
    });
    expect(response.status).toBe(201);
    const patterns = [
      new RegExp(
        `"traceId":"${TRACE_ID}","spanId":"\\w+","parentSpanId":"b7ad6b7169203331"[^}]*"name":"POST /v1/categories"`,
      ),
      new RegExp(`"traceId":"${TRACE_ID}"[^[]*"name":"pg.query:INSERT`),
    ];
    for (const pattern of patterns) await waitFor(() => pattern.test(exported));
    const log = await readText(`var/log/api@1`);
    const line = log.split('\n').findLast((each) => each.includes('POST /v1/categories 201'));
    expect(log).not.toContain('Warning');
    expect(JSON.parse(line!)).toMatchObject({ trace_id: TRACE_ID });
    // Commands are traced, too.
    expect(await run(`api keys list`)).toContain('first');
  });

  it('contains no other block of commands', () => {
    const commands = blocks.filter(
      ({ language, notRun }) => language === 'sh' && notRun === undefined,
    );
    expect([...executed]).toEqual(commands);
  });
});
