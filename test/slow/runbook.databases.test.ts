/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests, jest/expect-expect -- `requires` returns `it` or `it.skip` */
/**
 * Runs the commands of the runbook against the faults that they are for. There is no systemd: a `journalctl` prints the log
 * of the processes, and a `systemctl` asks the test to stop and start them. Paths, ports and the address of Prometheus are
 * replaced.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { chmod, mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { main as keysCommand } from '../../src/cli/keys.js';
import { createDatabase, type TestDatabase } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { runCommand } from '../support/cli.js';
import { DATABASE } from '../support/databases.js';
import { CategoriesClient, type HttpResponse, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { hasNginx, startNginx } from '../support/nginx.js';
import { findFreePort } from '../support/postgres.js';
import { connectToPostgres, queryPostgres } from '../support/postgres-client.js';
import { buildPreviousRelease } from '../support/previous-release.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { listen, type TestServer } from '../support/server.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type ServiceProcess,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const ROOT = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(ROOT, 'docs/runbook.md'), 'utf8');

/** A code block, the heading above it, and why it is not run. */
interface Block {
  readonly section: string;
  readonly language: string;
  readonly code: string;
  readonly reason: string | undefined;
}

const BLOCKS: readonly Block[] = page.split(/^#+ /m).flatMap((text) => {
  const [section = ''] = text.split('\n');
  const blocks = text.matchAll(/^(?:<!-- not run: (.*) -->\n)?```(\w+)\n(.*?)^```$/gms);
  return Array.from(blocks, ([, reason, language, code]) => ({
    section,
    language: language!,
    code: code!,
    reason,
  }));
});
const RUN = BLOCKS.filter(({ reason }) => reason === undefined);

/** The strings by which a table of the runbook recognizes each cause of an unavailable database. */
const CAUSES = [...page.matchAll(/^\| (`[^|]*) \| [^|]* \|$/gm)].map(([, cell]) =>
  [...cell!.matchAll(/`([^`]+)`/g)].map(([, text]) => text!),
);

const monitored = requires(
  'prometheus, promtool, jq and curl',
  ['prometheus', 'promtool', 'jq', 'curl'].every((program) => commandSucceeds(program)),
);
const onSqlite = DATABASE === 'sqlite' ? monitored.it : it.skip;
const onPostgres = DATABASE === 'postgres' ? monitored.it : it.skip;
const hasMounts = commandSucceeds('unshare', '--mount mount -t tmpfs tmpfs /mnt'.split(' '));

let services: Services;
let database: TestDatabase;
let systemd: TestServer;
let prometheus: { url: string; process: ChildProcess } | undefined;
/** The processes that run as `petstore@1` and so on, and their ports and variables. */
let units: Map<string, { service: ServiceProcess; env: NodeJS.ProcessEnv }>;
/** What systemd itself logs of them. */
let systemdLog: string;
let directory: string;
/** The port of `petstore@1` without its last digit. */
let ports: number;
let release: { readonly main?: string };
let stops: (() => Promise<void>)[];

beforeEach(async () => {
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url, NODE_ENV: 'production' });
  ({ directory } = services);
  units = new Map();
  systemdLog = '';
  release = {};
  stops = [];
  ports = Math.floor((await findFreePort()) / 10);
  systemd = await listen((request, response) => {
    void (async () => {
      const [action, ...names] = [
        ...new URL(request.url!, systemd.url).searchParams.keys(),
      ][0]!.split(' ');
      for (const name of names.join() === 'petstore@*' ? units.keys() : names) {
        if (name === 'prometheus') continue;
        if (action !== 'start') await units.get(name)!.service.stop();
        if (action !== 'stop') start(name, units.get(name)!.env);
      }
      response.end();
    })();
  });
  const bin = join(directory, 'bin');
  await mkdir(bin);
  for (const [name, script] of [
    [
      'journalctl',
      `case "$*" in "-u petstore@* "*" -o cat") cat ${directory}/journal;; *) exit 1;; esac`,
    ],
    ['systemctl', `curl -sS --get --data-urlencode "=$*" ${systemd.url}`],
  ] as const) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  }
});
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  if (prometheus !== undefined) {
    prometheus.process.kill();
    await once(prometheus.process, 'exit');
    prometheus = undefined;
  }
  systemd.close();
  await services.close();
  await database.drop();
});

/** Starts a process as its unit does. */
function start(name: string, env: NodeJS.ProcessEnv = {}): ServiceProcess {
  const instance = name.slice(-1);
  const PORT = `${ports}${instance}`;
  const options = { env: { PORT, METRICS_PORT: '0', ...env }, ...release };
  const service = services.start(options);
  units.set(name, { service, env });
  return service;
}

interface Instance {
  readonly service: ServiceProcess;
  readonly url: string;
  readonly metrics: string;
  readonly categories: CategoriesClient;
}

/** Starts `petstore@1`, and waits until it listens. */
async function serve(env: NodeJS.ProcessEnv = {}): Promise<Instance> {
  const service = start('petstore@1', env);
  const url = await service.waitUntilListening();
  const [metrics] = /http:\/\/[\w.:]+\/metrics/.exec(service.output)!;
  return { service, url, metrics, categories: new CategoriesClient(url, BOOTSTRAP_KEY) };
}

/** Starts Prometheus with the alerts. It scrapes the metrics every second. */
async function monitor(metrics: string): Promise<void> {
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [resolve(ROOT, 'deploy/alerts.yml')],
    scrape_configs: [
      { job_name: 'petstore', static_configs: [{ targets: [new URL(metrics).host] }] },
    ],
  };
  const file = join(directory, 'prometheus.json');
  await writeFile(file, JSON.stringify(config));
  const address = `127.0.0.1:${await findFreePort()}`;
  const flags = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(directory, 'prometheus')}`,
    `--web.listen-address=${address}`,
  ];
  const url = `http://${address}`;
  prometheus = { url, process: spawn('prometheus', flags, { stdio: 'ignore' }) };
  await waitFor(() =>
    query('up').then(
      ({ length }) => length > 0,
      () => false,
    ),
  );
}

async function query(expression: string): Promise<unknown[]> {
  const url = `${prometheus!.url}/api/v1/query?query=${encodeURIComponent(expression)}`;
  return (await sendRequest(url)).json<{ data: { result: unknown[] } }>().data.result;
}

/** Waits until the condition of an alert is true. It fires if that lasts. */
const waitForAlert = (name: string): Promise<unknown> =>
  waitFor(
    () => query(`ALERTS{alertname="${name}"}`),
    ({ length }) => length > 0,
  );

/** Runs the commands of a section, and returns what they print. */
async function run(section: string, replacements: Record<string, string> = {}): Promise<string> {
  const log = services.started.map(({ output }) => output).join('');
  await writeFile(
    join(directory, 'journal'),
    `Started petstore@1.service - Petstore.\n${log}${systemdLog}`,
  );
  const code = RUN.filter((block) => block.section === section && block.language === 'sh')
    .map((block) => block.code)
    .join('');
  expect(code).not.toBe('');
  const substitutes = Object.entries({
    ...replacements,
    'http://127.0.0.1:9090': prometheus?.url ?? 'none',
    'http://127.0.0.1:300': `http://127.0.0.1:${ports}`,
    '/var/lib/petstore': dirname(getFile()),
    '/var/backups/petstore': directory,
    '/opt/petstore': join(directory, 'opt'),
    '/etc/prometheus': directory,
    ' -o petstore': '',
  });
  const script = substitutes.reduce((text, [from, to]) => text.replaceAll(from, to), code);
  const petstore = `petstore() (command=$1; shift; node ${getBuiltFile('src/cli')}/$command.js "$@")`;
  const env = {
    ...process.env,
    PATH: `${directory}/bin:${process.env['PATH']}`,
    DATABASE_URL: database.url,
  };
  const { stdout, stderr } = await promisify(execFile)(
    'bash',
    ['-c', `${petstore}\n${script}\ntrue`],
    { env, cwd: ROOT },
  );
  expect(stderr).not.toMatch(/jq: |parse error|syntax error|not found/);
  return stdout + stderr;
}

const getFile = (): string => database.url.replace('sqlite:', '');

/** Changes the database, as another program does. */
async function execute(sql: string): Promise<void> {
  if (DATABASE === 'postgres') return void (await queryPostgres(database.url, sql));
  const other = new Database(getFile());
  other.exec(sql);
  other.close();
}

/** Locks the categories until the returned function is called. */
async function lock(): Promise<() => Promise<void>> {
  if (DATABASE === 'postgres') {
    const client = await connectToPostgres(database.url);
    await client.query('BEGIN; LOCK TABLE "categories" IN ACCESS EXCLUSIVE MODE');
    return () => client.end();
  }
  const other = new Database(getFile());
  other.exec('BEGIN IMMEDIATE');
  return async () => void other.close();
}

const repeat = <T>(count: number, action: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, action));

/** Repeats an action until the end of the test, or until the returned function is called. */
function keepDoing(action: () => Promise<unknown>): () => Promise<void> {
  const ended = new AbortController();
  const running = (async () => {
    while (!ended.signal.aborted) await action().catch(() => undefined);
  })();
  const stop = (): Promise<void> => {
    ended.abort();
    return running;
  };
  stops.push(stop);
  return stop;
}

/** Returns variables with which a process runs code at its start. */
const inject = (code: string, option = ''): NodeJS.ProcessEnv => ({
  NODE_OPTIONS: `${option} --import=data:text/javascript,${encodeURIComponent(code)}`,
});

/** Returns the block of a section that is not a command. */
const getBlock = (section: string, language: string): string =>
  RUN.find((block) => block.section === section && block.language === language)!.code;

/** Creates a key with the command, and returns it. */
const createKey = async (...args: string[]): Promise<string> =>
  (
    await runCommand(keysCommand, ['create', ...args], { DATABASE_URL: database.url })
  ).stdout.trim();

/** Returns the rows of the table of causes that apply to what the log says, by their first text. */
const findCauses = (output: string): string[] =>
  CAUSES.filter((texts) => texts.some((text) => output.includes(text))).map(([text]) => text!);

describe('docs/runbook.md', () => {
  it('has no code block that no test runs, except for those with a reason', () => {
    const test = readFileSync(import.meta.filename, 'utf8');
    const tested = RUN.filter(({ section, language }) =>
      test.includes(
        language === 'sh' ? `run('${section}'` : `getBlock('${section}', '${language}'`,
      ),
    );
    expect(RUN.filter((block) => !tested.includes(block))).toEqual([]);
    expect(tested.length).toBeGreaterThan(15);
    const others = BLOCKS.filter((block) => !RUN.includes(block));
    process.stderr.write(`docs/runbook.md: ${others.length} code blocks are not run\n`);
    for (const { section, reason } of others) process.stderr.write(`${section}: ${reason}\n`);
  });

  monitored.it('installs alerts that lead to its sections, and lists the metrics', async () => {
    const { metrics } = await serve();
    await writeFile(join(directory, 'prometheus.yml'), getBlock('Monitoring', 'yaml'));
    const output = await run('Monitoring', { 'http://127.0.0.1:9461/metrics': metrics });
    expect(output).toContain('SUCCESS');
    expect(output.match(/^# HELP /gm)!.length).toBeGreaterThan(30);
    const rules = readFileSync(join(directory, 'petstore.yml'), 'utf8');
    const urls = [...rules.matchAll(/runbook_url: (.*)#(.*)/g)];
    expect(urls.length).toBeGreaterThan(10);
    const anchors = new Set(
      [...page.matchAll(/^### (.*)$/gm)].map(([, name]) => name!.toLowerCase()),
    );
    for (const [, url, anchor] of urls) {
      expect(url).toBe('https://git.example/petstore/docs/runbook.md');
      expect(anchors).toContain(anchor);
    }
  });
});

/** Repeats what is wrong until the section shows it: Prometheus counts no increase before the first sample. */
const waitForOutput = (pattern: RegExp, repeatCause: () => Promise<unknown>): Promise<string> =>
  waitFor(
    async () => {
      await repeatCause();
      return run('PetstoreErrorBudgetBurnFast');
    },
    (output) => pattern.test(output),
  );

describe('the section PetstoreErrorBudgetBurnFast', () => {
  const FAILED = /http_response_status_code="(\d+)"/g;
  const getStatuses = (output: string): string[] =>
    Array.from(output.matchAll(FAILED), ([, status]) => status!);

  monitored.it('tells a wrong statement by its message', async () => {
    const { categories, metrics } = await serve();
    await monitor(metrics);
    await execute('ALTER TABLE "categories" RENAME TO "hidden"');
    await repeat(20, () => categories.list());
    await waitForAlert('PetstoreErrorBudgetBurnFast');
    await waitForAlert('PetstoreErrorBudgetBurnSlow');
    expect(await run('PetstoreErrorBudgetBurnFast')).toMatch(
      /1 \/v1\/categories .*(no such table: categories|"categories" does not exist)/,
    );
    const output = await waitForOutput(/status_code="500"/, () => categories.list());
    expect(getStatuses(output)).toEqual(['500']);
    expect(await run('PetstoreErrorBudgetBurnSlow')).toMatch(
      /http_route="\/v1\/categories".* => 1 /,
    );
  });

  monitored.it('tells a lock by the code of the database', async () => {
    const { categories, metrics } = await serve();
    await monitor(metrics);
    const unlock = await lock();
    const statuses = (await repeat(5, () => categories.create('a'))).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([503]));
    await waitForAlert('PetstoreErrorBudgetBurnFast');
    const code = DATABASE === 'postgres' ? '57014' : 'SQLITE_BUSY';
    const pattern = new RegExp(`status_code="503"[^]*database_errors_total.*="${code}"`);
    const output = await waitForOutput(pattern, () => categories.create('a'));
    await unlock();
    expect(getStatuses(output)).toEqual(['503']);
  });

  monitored.it('tells slow commits from failures', async () => {
    const { categories, metrics } = await serve();
    await monitor(metrics);
    const createSlowly = async (): Promise<void> => {
      const unlock = await lock();
      const created = categories.create('a');
      await delay(1_000);
      await unlock();
      expect((await created).status).toBe(201);
    };
    for (let n = 0; n < 3; n++) await createSlowly();
    await waitForAlert('PetstoreErrorBudgetBurnFast');
    const pattern = /^\{\} => ([\d.]+)/m;
    const [, seconds] = pattern.exec(await waitForOutput(pattern, createSlowly))!;
    expect(Number(seconds)).toBeGreaterThan(0.5);
  });
});

const showDown = ({ metrics }: Instance): Promise<string> =>
  run('PetstoreDown', { 'http://127.0.0.1:9461/metrics': metrics });

describe('the section PetstoreDown', () => {
  monitored.it(
    'tells a process that ended, with its cause, from one that hangs, and one that works',
    async () => {
      const instance = await serve();
      await monitor(instance.metrics);
      const healthy = await showDown(instance);
      expect(healthy).toMatch(/^\{"status":"ok"\}[^]*\npetstore_build_info/);
      process.kill(instance.service.pid, 'SIGSTOP');
      await waitForAlert('PetstoreDown');
      expect(await showDown(instance)).toMatch(/timed out/);
      process.kill(instance.service.pid, 'SIGCONT');
      await instance.service.stop();
      await start('petstore@1', { LOG_LEVEL: 'loud' }).exited;
      const ended = await showDown(instance);
      expect(ended).toMatch(/(Failed|Couldn't|Could not) .*connect/);
      expect(ended).toMatch(/LOG_LEVEL/);
      expect(ended).not.toMatch(/timed out|petstore_build_info/);
    },
  );
});

describe('the section PetstoreRestarting', () => {
  monitored.it.each([
    [
      'a bug',
      inject(`process.on('SIGUSR2', () => { throw new Error('the bug') })`),
      'SIGUSR2',
      /[34] Uncaught exception, exiting the bug$/m,
    ],
    [
      'too little memory',
      inject(
        `const all = []; process.on('SIGUSR2', () => { for (;;) all.push({ n: all.length }) })`,
        '--max-old-space-size=90',
      ),
      'SIGUSR2',
      /[34] .*heap out of memory/,
    ],
    [
      'SIGKILL',
      {},
      'SIGKILL',
      /[34] petstore@1.service: Main process exited, code=killed, status=9\/KILL/,
    ],
    ['SIGTERM', {}, 'SIGTERM', /[34] Received SIGTERM, shutting down/],
  ] as const)('names %s', async (_name, env, signal, expected) => {
    // Each start on the same port, as Prometheus expects.
    const METRICS_PORT = String(await findFreePort());
    for (let count = 0; count < 4; count++) {
      const startedAt = Math.floor(Date.now() / 1_000);
      const { service, metrics } = await serve({ ...env, METRICS_PORT });
      if (count === 0) await monitor(metrics);
      await waitFor(
        () => query(`process_start_time_seconds >= ${startedAt}`),
        ({ length }) => length > 0,
      );
      if (count === 3) break;
      service.kill(signal);
      const { code } = await service.exited;
      const status =
        signal === 'SIGKILL' ? 'code=killed, status=9/KILL' : `code=exited, status=${code}/FAILURE`;
      if (code !== 0) systemdLog += `petstore@1.service: Main process exited, ${status}\n`;
    }
    await waitForAlert('PetstoreRestarting');
    const output = await run('PetstoreRestarting');
    expect(output).toMatch(expected);
    const looks = [/Uncaught exception/, /heap out of memory/, /status=9/, /Received SIGTERM/];
    expect(looks.filter((look) => look.test(output))).toHaveLength(1);
  });
});

/** Returns the name of a database of PostgreSQL. */
const getName = (): string => new URL(database.url).pathname.slice(1);
const disconnect = (): string =>
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${getName()}'`;

describe('the section PetstoreDatabaseDown', () => {
  onSqlite.each<[string, string, () => Promise<() => Promise<void>>]>([
    ['a lock', 'database is locked', lock],
    [
      'a moved file',
      'moved or deleted',
      async () => {
        await rename(getFile(), `${getFile()}.moved`);
        return () => rename(`${getFile()}.moved`, getFile());
      },
    ],
    [
      'a damaged file',
      'malformed',
      async () => {
        const other = new Database(getFile());
        other.pragma('wal_checkpoint(TRUNCATE)');
        const handle = openSync(getFile(), 'r+');
        writeSync(handle, Buffer.alloc(statSync(getFile()).size - 4096, 0xff), 0, undefined, 4096);
        closeSync(handle);
        return async () => void other.close();
      },
    ],
  ])('tells %s', async (_name, cause, breakDatabase) => {
    const { categories, metrics } = await serve();
    await monitor(metrics);
    for (let n = 0; n < 3; n++) await categories.create('a');
    const repair = await breakDatabase();
    const stop = keepDoing(async () => {
      await categories.create('b');
      await categories.list();
    });
    await waitForAlert('PetstoreDatabaseDown');
    await waitFor(async () => findCauses(await run('PetstoreDatabaseDown')).length > 0);
    expect(findCauses(await run('PetstoreDatabaseDown'))).toEqual([cause]);
    await stop();
    await repair();
  });

  describe('on PostgreSQL', () => {
    const role = `runbook_${randomUUID().replaceAll('-', '')}`;
    const admin = process.env['TEST_DATABASE_URL']!;
    let proxy: ChaosProxy;
    let url: string;
    const administer = (...statements: string[]): Promise<void> =>
      statements.reduce(async (previous, sql) => {
        await previous;
        await queryPostgres(admin, sql);
      }, Promise.resolve());

    onPostgres.each<[string, string, () => Promise<unknown>]>([
      [
        'a read-only server',
        '25006',
        () =>
          administer(
            `ALTER DATABASE ${getName()} SET default_transaction_read_only = on`,
            disconnect(),
          ),
      ],
      [
        'a changed password',
        '28P01',
        () => administer(`ALTER ROLE ${role} PASSWORD 'second'`, disconnect()),
      ],
      [
        'a missing privilege',
        '28P01',
        () =>
          queryPostgres(
            database.url,
            `REASSIGN OWNED BY ${role} TO CURRENT_USER; REVOKE ALL ON "revisions" FROM ${role}`,
          ),
      ],
      [
        'a renamed database',
        '28P01',
        () =>
          administer(
            `ALTER DATABASE ${getName()} ALLOW_CONNECTIONS false`,
            disconnect(),
            `ALTER DATABASE ${getName()} RENAME TO ${getName()}_moved`,
          ),
      ],
      [
        'too few connections',
        '53300',
        () => administer(`ALTER ROLE ${role} CONNECTION LIMIT 0`, disconnect()),
      ],
      ['a server that ended', 'ECONNREFUSED', () => proxy.close()],
      ['a server that does not respond', 'ECONNREFUSED', async () => proxy.blackhole()],
    ])('tells %s', async (_name, cause, breakDatabase) => {
      await administer(
        `CREATE ROLE ${role} LOGIN PASSWORD 'first'`,
        `ALTER DATABASE ${getName()} OWNER TO ${role}`,
      );
      proxy = await ChaosProxy.listen(database.url);
      url = Object.assign(new URL(proxy.proxiedUrl(database.url)), {
        username: role,
        password: 'first',
      }).href;
      try {
        const { categories, metrics } = await serve({ DATABASE_URL: url });
        await monitor(metrics);
        expect(await categories.create('a')).toMatchObject({ status: 201 });
        await breakDatabase();
        const stop = keepDoing(() => categories.create('b'));
        await waitForAlert('PetstoreDatabaseDown');
        await waitFor(async () => findCauses(await run('PetstoreDatabaseDown')).length > 0);
        expect(findCauses(await run('PetstoreDatabaseDown'))).toEqual([cause]);
        await stop();
      } finally {
        for (const service of services.started) service.kill('SIGKILL');
        await proxy.close();
        for (const name of [getName(), `${getName()}_moved`])
          await administer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
        // The test drops it, too.
        await administer(`CREATE DATABASE ${getName()}`);
        await administer(`DROP ROLE ${role}`);
      }
    });
  });

  monitored.it('tells an outdated schema', async () => {
    const { metrics } = await serve({ MIGRATIONS: 'off' });
    await monitor(metrics);
    await waitForAlert('PetstoreDatabaseDown');
    expect(findCauses(await run('PetstoreDatabaseDown'))).toEqual(['schema is outdated']);
  });
});

describe('the sections PetstoreDiskFull and PetstoreDiskFilling', () => {
  (hasMounts ? onSqlite : requires('permission to mount a tmpfs', false).it)(
    'tell what has filled the disk, and what grows',
    async () => {
      const disk = dirname(getFile());
      const mount = promisify(execFile);
      await mount('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]);
      try {
        const { categories, metrics } = await serve();
        await monitor(metrics);
        expect(await categories.create('a')).toMatchObject({ status: 201 });
        await writeFile(join(disk, 'old-backup'), Buffer.alloc(8e6)).catch(() => undefined);
        await waitForAlert('PetstoreDiskFilling');
        const free = /^\{.*\} => (-?[\d.e+]+) /gm;
        const [database_ = NaN, space = NaN] = Array.from(
          (await run('PetstoreDiskFilling')).matchAll(free),
          ([, value]) => Number(value),
        );
        expect(space).toBeLessThan(-1e6);
        expect(database_).toBeLessThan(-space / 10);
        const stop = keepDoing(() => categories.create('b', 'x'.repeat(1_000)));
        await waitForAlert('PetstoreDiskFull');
        await stop();
        const output = await run('PetstoreDiskFull');
        expect(output).toMatch(/ 100% /);
        expect(output).toMatch(/^[34]\.\dM\t.*old-backup$/m);
        expect(findCauses(await run('PetstoreDatabaseDown'))).toEqual(['full']);
        await services.started[0]!.stop();
      } finally {
        for (const service of services.started) service.kill('SIGKILL');
        await Promise.all(services.started.map(({ exited }) => exited));
        await mount('umount', [disk]);
      }
    },
  );
});

describe('the section PetstoreWalGrowing', () => {
  onSqlite('names the process that reads without an end, which also locks', async () => {
    const { service, metrics } = await serve();
    await monitor(metrics);
    const script = `const db = new (require('better-sqlite3'))('${getFile()}'); db.exec('BEGIN; SELECT * FROM "categories"'); console.log(1); setInterval(() => 0, 1000)`;
    const reader = spawn('node', ['-e', script], { cwd: ROOT });
    await once(reader.stdout, 'data');
    await execute('CREATE TABLE "blobs" ("value" BLOB)');
    for (let n = 0; n < 10; n++) {
      await execute('INSERT INTO "blobs" VALUES (randomblob(8000000))');
      await delay(500);
    }
    await waitForAlert('PetstoreWalGrowing');
    const pids = (await run('PetstoreWalGrowing'))
      .split('\n')
      .flatMap((line) => /^ *(\d+) /.exec(line)?.[1] ?? []);
    expect(pids).toContain(String(reader.pid));
    expect(new Set(pids)).toEqual(new Set([service.pid, reader.pid].map(String)));
    reader.kill();
    await once(reader, 'exit');
    expect(await run('PetstoreWalGrowing')).not.toContain(String(reader.pid));
  });
});

describe('the section PetstoreEventLoopSaturated', () => {
  /** Makes each request slow. */
  const code = `import http from 'node:http'; const { emit } = http.Server.prototype;
    http.Server.prototype.emit = function (name, ...rest) {
      const isSlow = name === 'request' && rest[0].url !== '/metrics';
      for (const end = performance.now() + 20; isSlow && performance.now() < end;);
      return emit.call(this, name, ...rest);
    };`;

  /** Sends requests with a key until the event loop is saturated, and returns what the commands print. */
  async function saturate(getKey: () => Promise<string>): Promise<string> {
    const { url, metrics } = await serve(inject(code));
    const key = await getKey();
    for (let n = 0; n < 8; n++) keepDoing(() => new CategoriesClient(url, key).list());
    keepDoing(async () => {
      await delay(300);
      await new CategoriesClient(url, BOOTSTRAP_KEY).list();
    });
    await monitor(metrics);
    // The condition of the alert takes two minutes to be true.
    const active = 'nodejs_eventloop_time_seconds_total{nodejs_eventloop_state="active"}';
    await waitFor(
      () => query(`rate(${active}[10s]) > 0.9`),
      ({ length }) => length > 0,
    );
    return run('PetstoreEventLoopSaturated');
  }

  monitored.it('names the key that sends the most requests', async () => {
    const output = await saturate(() => createKey('busy'));
    expect(output).toMatch(/^\{api_key_id="2"\} => [\d.]+ .*\n\{api_key_id="1"\}/);
    expect(output).not.toMatch(/_status_code="401"[^}]*\} =>/);
    const keys = await run('Requests', { '<X-Request-Id>': 'none' });
    expect(keys).toMatch(/\{api_key_id="2"\} => [^]*^2 +busy/m);
  });

  monitored.it('tells clients without a valid key', async () => {
    const output = await saturate(async () => 'wrong');
    expect(output).toMatch(
      /^\{api_key_id="1"\} => [\d.]+ .*\n\{.*_status_code="(401|429)"[^}]*\} =>/,
    );
  });
});

describe('the section PetstorePoolSaturated', () => {
  onPostgres('shows the session that blocks the others, and none if none does', async () => {
    const { categories, metrics } = await serve({ DATABASE_POOL_SIZE: '2' });
    const show = () => queryPostgres(database.url, getBlock('PetstorePoolSaturated', 'sql'));
    expect(await show()).toEqual([]);
    const client = await connectToPostgres(database.url);
    await client.query(
      'BEGIN; LOCK TABLE "revisions" IN ACCESS EXCLUSIVE MODE; SELECT 1 AS "forgotten"',
    );
    const clients = Array.from({ length: 20 }, (_, n) =>
      keepDoing(() => (n % 2 ? categories.create('a') : categories.list())),
    );
    await monitor(metrics);
    await waitForAlert('PetstorePoolSaturated');
    const shown = await waitFor(show, ({ length }) => length > 0);
    expect(shown).toEqual([
      expect.objectContaining({
        pid: Reflect.get(client, 'processID') as number,
        state: 'idle in transaction',
        query: expect.stringContaining('forgotten') as string,
      }),
    ]);
    await client.end();
    await Promise.all(clients.map((stop) => stop()));
    expect(await show()).toEqual([]);
  });
});

describe('the section PetstoreAuthenticationFailures', () => {
  monitored.it('names the clients, and the limits that they have exceeded', async () => {
    const { url, metrics } = await serve({
      TRUST_PROXY: 'loopback',
      AUTH_FAILURES_PER_MINUTE: '100',
    });
    await monitor(metrics);
    const guess = (address: string): Promise<HttpResponse> =>
      new CategoriesClient(url, `wrong-${randomUUID()}`).list({ 'x-forwarded-for': address });
    for (let n = 0; n < 20; n++) await repeat(20, () => guess(`2001:db8::${n}`));
    for (let n = 0; n < 5; n++) await guess('192.0.2.1');
    await waitForAlert('PetstoreAuthenticationFailures');
    const output = await run('PetstoreAuthenticationFailures');
    expect(output).toMatch(
      /^ +1 2001:db8:0:0\n +1 192\.0\.2\.1\n|^ +1 192\.0\.2\.1\n +1 2001:db8:0:0\n/,
    );
    const [, limited] = /\{policy="auth-failures"\} => ([\d.]+)/.exec(output)!;
    expect(Number(limited)).toBeGreaterThan(0.5);
    expect(output).toContain('{policy="auth-failures-global"} => 0 ');
  });
});

describe('the section PetstoreApiKeysExpiring', () => {
  monitored.it('names the key, and a command that replaces it', async () => {
    const { url, metrics } = await serve();
    await monitor(metrics);
    const key = await createKey('billing', '--expires-in', '3d');
    for (let n = 0; n < 2; n++) await new CategoriesClient(url, key).list();
    await waitForAlert('PetstoreApiKeysExpiring');
    const lines = (await run('PetstoreApiKeysExpiring')).trim().split('\n');
    expect(lines).toEqual([
      expect.stringMatching(/^API key 2 \(billing\) .*keys\.js rotate 2 --overlap 7d$/),
    ]);
  });
});

describe('the section Requests', () => {
  monitored.it(
    'finds the lines of a request by its id, and counts the requests of each key',
    async () => {
      const { categories, metrics } = await serve();
      await monitor(metrics);
      await categories.list();
      await waitFor(
        () => query('petstore_api_key_requests_total'),
        ({ length }) => length > 0,
      );
      await execute('ALTER TABLE "categories" RENAME TO "hidden"');
      const failed = await categories.create('a');
      expect(failed.status).toBe(500);
      const id = failed.headers['x-request-id'] as string;
      await waitFor(
        () => query('petstore_api_key_requests_total > 1'),
        ({ length }) => length > 0,
      );
      const output = await run('Requests', { '<X-Request-Id>': id });
      expect(output).toMatch(new RegExp(`"requestId": "${id}"`));
      expect(output).toMatch(/\{api_key_id="1"\} => [\d.]+/);
      expect(output).toMatch(/^1 +bootstrap/m);
    },
  );
});

const nginx = requires(
  'nginx and the previous release',
  hasNginx && commandSucceeds('git', ['cat-file', '-e', '639547c^{commit}']),
);
describe('the section Roll back an upgrade', () => {
  nginx.it('loses no request and no row, both ways', async () => {
    const former = await buildPreviousRelease();
    const opt = join(directory, 'opt');
    for (const [name, dist] of [
      ['', getBuiltFile('src')],
      ['.old', former.resolve('dist')],
    ]) {
      await mkdir(opt + name);
      await symlink(dist!, join(opt + name!, 'dist'));
    }
    release = { main: join(opt, 'dist/main.js') };
    const TRUST_PROXY = 'loopback';
    for (const name of ['petstore@1', 'petstore@2'])
      await start(name, { TRUST_PROXY }).waitUntilListening();
    const proxy = await startNginx([1, 2].map((instance) => ports * 10 + instance));
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    const getReleases = async () =>
      Promise.all(
        [1, 2].map(
          async (instance) =>
            (await sendRequest(`http://127.0.0.1:${ports}${instance}/openapi.json`)).text.length,
        ),
      );
    try {
      await waitFor(() =>
        sendRequest(`${proxy.url}/readyz`).then(
          ({ status }) => status === 200,
          () => false,
        ),
      );
      load.start(proxy.url, { writers: 4, readers: 4, pause: 20 });
      await load.waitForSuccesses(20);
      const [upgraded] = await getReleases();
      await run('Roll back an upgrade');
      await load.waitForSuccesses(20);
      const [rolledBack, second] = await getReleases();
      expect([rolledBack, second]).not.toContain(upgraded);
      // An upgrade to the release that was rolled back.
      await rename(opt, `${opt}.old`);
      await rename(`${opt}.failed`, opt);
      for (const name of units.keys()) {
        await units.get(name)!.service.stop();
        await start(name, { TRUST_PROXY }).waitUntilListening();
      }
      await load.waitForSuccesses(20);
      expect(await getReleases()).toEqual([upgraded, upgraded]);
    } finally {
      await load.stop();
      await proxy.stop();
      await former.remove();
    }
    load.verifyFinalState(
      await new CategoriesClient(`http://127.0.0.1:${ports}1`, BOOTSTRAP_KEY).getAll(),
    );
    expect(load.violations).toEqual([]);
    expect(load.created.length).toBeGreaterThan(50);
  });
});

describe('the section Restore a backup', () => {
  onSqlite('restores the rows of a backup', async () => {
    const { categories } = await serve();
    start('petstore@2');
    await units.get('petstore@2')!.service.waitUntilListening();
    await categories.create('before');
    const other = new Database(getFile());
    other.exec(`VACUUM INTO '${directory}/2026-11-21.sqlite'`);
    other.close();
    await categories.create('after');
    await run('Restore a backup');
    const restored = new CategoriesClient(
      await units.get('petstore@2')!.service.waitUntilListening(),
      BOOTSTRAP_KEY,
    );
    expect(await restored.getNames()).toEqual(['before']);
  });

  onPostgres('lists restored rows after the statement', async () => {
    const { categories } = await serve();
    await categories.create('dog');
    expect(await categories.getNames()).toEqual(['dog']);
    const change = `UPDATE "categories" SET "name" = 'cat'`;
    await execute(
      `SET session_replication_role = replica; ALTER TABLE "categories" DISABLE TRIGGER ALL; ${change}`,
    );
    await execute(getBlock('Restore a backup', 'sql'));
    expect(await categories.getNames()).toEqual(['cat']);
  });
});
