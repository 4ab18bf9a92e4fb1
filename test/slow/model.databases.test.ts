/** Random histories of requests and faults, whose logs are checked against a model of what was acknowledged. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { createApp } from '../../src/app.js';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { loadConfig } from '../../src/platform/config/config.js';
import { createDatabase } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { CagesModule, type Toy } from '../support/cages.module.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { shiftClock } from '../support/clock.js';
import { DATABASE } from '../support/databases.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { findFreePort, startPostgres } from '../support/postgres.js';
import { queryPostgres } from '../support/postgres-client.js';
import { kill, restart } from '../support/postgres-faults.js';
import { BOOTSTRAP_KEY, createServices } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const HISTORIES = Number(process.env['HISTORIES'] ?? 24);
const FIRST_SEED = Number(process.env['SEED'] ?? 1);
/** The documented time after a fault until requests succeed again. */
const RECOVERY_MS = 5_000;
const DAY_MS = 25 * 60 * 60 * 1_000;
const IS_POSTGRES = DATABASE === 'postgres';
const HEADERS = { ...jsonHeaders(BOOTSTRAP_KEY), 'if-match': '*' };
const TERMINATE = `SELECT pg_terminate_backend("pid") FROM pg_stat_activity
  WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()`;
const TABLES = ['categories', 'cages', 'toys', 'idempotency_records'];
const forAll = (sql: string): string =>
  `${TABLES.map((table) => sql.replaceAll('%', table)).join(';')}; COMMIT`;
const BACK_UP = `BEGIN${IS_POSTGRES ? ' ISOLATION LEVEL REPEATABLE READ' : ''};
  ${forAll('CREATE TABLE "backup_%" AS SELECT * FROM "%"')}`;
const RESTORE = `BEGIN; ${IS_POSTGRES ? `LOCK TABLE ${TABLES.join()};` : ''}
  ${forAll('DELETE FROM "%"; INSERT INTO "%" SELECT * FROM "backup_%"')}`;
/** Refuses names that end in `!`, with an error that is not that of a constraint. */
const TRIGGER = IS_POSTGRES
  ? `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
     CREATE TRIGGER "refuse" BEFORE INSERT ON "categories" FOR EACH ROW WHEN (NEW."name" LIKE '%!')
     EXECUTE FUNCTION refuse()`
  : `CREATE TRIGGER "refuse" BEFORE INSERT ON "categories" WHEN NEW."name" LIKE '%!'
     BEGIN SELECT RAISE(FAIL, 'no'); END`;

/** The state of a row: the name with which it was created, and `#2` after a change, `:locked` or `:gone`. */
type State = string;
type Times = { readonly from: number; readonly to: number };
type Fault = Times & { readonly name: string; readonly instances: readonly number[] };

interface ModelRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  /** Its Idempotency-Key. */
  readonly key?: string | undefined;
  /** The states in which it leaves rows. */
  readonly effects?: readonly State[];
  /** Matches the rows that it reads. */
  readonly rows?: RegExp | undefined;
}

/** A request, when it was sent and received, and its response, if the status is not 0. Instance 2 is the database. */
interface LogEntry extends ModelRequest, Times {
  readonly instance: number;
  readonly status: number;
  readonly text: string;
  /** What was read. */
  readonly states: readonly State[];
}

const toRow = (state: State): string => state.split(/[#:]/)[0]!;
const isSuccess = ({ status }: LogEntry): boolean => status >= 200 && status < 300;
const isUnavailable = ({ status }: LogEntry): boolean => status === 0 || status === 503;
const isRejected = ({ status, effects }: LogEntry): boolean =>
  status === 500
    ? effects !== undefined && effects[0]!.endsWith('!')
    : status >= 400 && status < 500;

/** Finds rows that are lost, stale, stored twice or though rejected, and requests with several or wrong results. */
function checkStates(log: readonly LogEntry[]): string[] {
  const changes = log.filter(({ effects }) => effects !== undefined);
  const requests = [...Map.groupBy(changes, (entry) => entry.key ?? entry).values()];
  /** What may have happened, at the earliest and at the latest. */
  const writes = requests
    .filter((tries) => !tries.every(isRejected))
    .flatMap((tries) => {
      const from = Math.min(...tries.map((entry) => entry.from));
      const to = Math.min(...tries.filter(isSuccess).map((entry) => entry.to));
      const times = { from, to };
      return tries[0]!.effects!.map((state) => ({ state, tries, times }));
    });
  const byRow = Map.groupBy(writes, ({ state }) => toRow(state));
  const byState = Map.groupBy(writes, ({ state }) => state);
  // What was read has happened.
  for (const { states, to } of log)
    for (const [write, other] of states.map((state) => byState.get(state) ?? []))
      if (write && !other) write.times.to = Math.min(write.times.to, to);

  /** Checks whether a row may be in a state at a time. */
  const isPossible = (state: State, { from, to }: Times): boolean => {
    const row = toRow(state);
    const all = byRow.get(row) ?? [];
    const isCurrent = ({ times }: { times: Times }): boolean =>
      times.from < to && !all.some((later) => times.to < later.times.from && later.times.to < from);
    const initial = { state: `${row}:gone`, times: { from: -1, to: -1 } };
    return [initial, ...all].some((write) => write.state === state && isCurrent(write));
  };
  const violations = log.flatMap((entry) => {
    const { method, states, rows, status } = entry;
    const isRead = status === 404 || status === 400 || (method === 'GET' && isSuccess(entry));
    if (rows === undefined || !isRead) return [];
    const read = states.map(toRow);
    const missing = [...byRow.keys()].filter((row) => rows.test(row) && !read.includes(row));
    const isRepeated = (row: string): boolean => read.indexOf(row) < read.lastIndexOf(row);
    return [...states, ...missing.map((row) => `${row}:gone`)]
      .filter((state) => isRepeated(toRow(state)) || !isPossible(state, entry))
      .map((state) => `${state} was read`);
  });
  for (const tries of requests) {
    const results = new Set(tries.filter(isSuccess).map(({ text }) => text));
    const hasFailed = tries.some((entry) => entry.status === 500 && !isRejected(entry));
    if (results.size > 1 || hasFailed)
      violations.push(`${tries[0]!.effects![0]} has a wrong result`);
  }
  for (const { state, tries, times } of writes)
    if (times.to < Infinity && tries.some(isRejected))
      violations.push(`${state} was rejected, too`);
  for (const [state, all] of byState)
    if (state.endsWith(':locked') && all.filter(({ tries }) => tries.some(isSuccess)).length > 1)
      violations.push(`${state} twice`);
  return violations;
}

/** Splits a log at the restore of a backup: what was before it, and what is in the backup or was later. */
function splitLog(log: readonly LogEntry[], faults: readonly Fault[]): (readonly LogEntry[])[] {
  const backup = faults.find(({ name }) => name === 'backup')!;
  const { from, to } = faults.find(({ name }) => name === 'restore') ?? { from: Infinity, to: 0 };
  const forget = (each: LogEntry): LogEntry => ({ ...each, status: 0, states: [], to: Infinity });
  const before = log.filter((each) => each.from < from);
  const isKept = (each: LogEntry) => each.from < backup.to || each.to > from || isUnavailable(each);
  const isCertain = (each: LogEntry) => each.to < backup.from || each.from > to;
  return [
    before.map((each) => (each.to < from ? each : forget(each))),
    from === Infinity
      ? []
      : log.filter(isKept).map((each) => (isCertain(each) ? each : forget(each))),
  ];
}

/** Finds requests that failed though no fault affected their instance. */
function checkAvailability(log: readonly LogEntry[], faults: readonly Fault[]): string[] {
  const isAffected = (entry: LogEntry): boolean =>
    faults
      .filter(({ instances }) => instances.includes(entry.instance))
      .some(({ from, to }) => entry.to > from && entry.from < to + RECOVERY_MS);
  const others = log.filter((entry) => !isAffected(entry) && !isRejected(entry));
  const failed = others.filter(isUnavailable).map(({ from }) => `${from} is when a request failed`);
  const isEnough = others.filter(isSuccess).length >= others.length * 0.9;
  return isEnough ? failed : [...failed, 'Less than nine of ten requests succeeded'];
}

/** Returns what is wrong in a history, with the part of the log that is about the same row. */
function checkHistory(log: readonly LogEntry[], faults: readonly Fault[]): string[] {
  const violations = splitLog(log, faults).flatMap(checkStates);
  const lines = [...faults, ...log].map((entry) => JSON.stringify(entry));
  return [...new Set([...violations, ...checkAvailability(log, faults)])].flatMap((violation) => {
    const excerpt = lines.filter((line) => line.includes(toRow(violation.split(' ')[0]!)));
    return [violation].concat(excerpt.map((line) => line.slice(0, 500)));
  });
}

type Pick = <T>(values: readonly T[]) => T;

/** Returns a function that picks a value at random, the same ones for the same seed. */
function createPick(seed: string): Pick {
  let count = 0;
  const getRandom = (): number =>
    createHash('sha256').update(`${seed} ${count++}`).digest().readUInt32BE();
  return (values) => values[getRandom() % values.length]!;
}

/** What clients know: the paths of rows, and requests that they may repeat. */
interface Known {
  readonly paths: [row: string, path: string][];
  readonly keyed: ModelRequest[];
}

const read = (path: string, rows: string) => ({ method: 'GET', path, rows: RegExp(rows) });

/** Creates a random request, whose row has this name, or returns an earlier one. */
function createRequest(pick: Pick, name: string, { paths, keyed }: Known): ModelRequest {
  const [cage, cagePath] = pick(paths.filter(([row]) => row.startsWith('c')));
  const [toy, toyPath] = pick(paths.filter(([row]) => row.startsWith('t')));
  const key = pick([`key-${name}`, `key-${name}`, undefined]);
  // One of two numbers may be created by several requests, and is not deleted.
  const label = `c${pick([name, name, name, name.replace(/-\d+$/, '')])}`;
  const limit = pick([2, 100]);
  const write = (method: string, path: string, rows: string, ...effects: State[]) => ({
    method,
    path,
    effects,
    rows: RegExp(`^${rows}$`),
    ...(method !== 'DELETE' && { body: toBody(effects[0]!) }),
    ...(method === 'POST' && { key }),
  });
  const requests: [weight: number, ModelRequest][] = [
    [6, write('POST', '/categories', '-', `k${name}`)],
    [1, write('POST', '/categories', '-', `k${name}!`)],
    [3, write('POST', '/cages', '-', label)],
    [3, write('POST', `${cagePath}/exchange`, '-', `c${name}`, `${cage}:locked`)],
    [4, write('POST', `${cagePath}/toys`, cage, `t${name}/${cage}`)],
    [2, write('PUT', toyPath, toy, `${toy}#${name}`)],
    [3, write('PATCH', toyPath, toy, `${toy}#${name}`)],
    [4, write('DELETE', toyPath, toy, `${toy}:gone`)],
    [/-.*-/.test(cage) ? 4 : 0, write('DELETE', cagePath, cage, `${cage}:gone`)],
    [7, pick(keyed)],
    [4, read('/categories', '^k')],
    [2, read(`/cages?limit=${limit}`, '^c')],
    [3, read(`${cagePath}/toys?limit=${limit}`, `/${cage}$`)],
    [2, read(cagePath, `^${cage}$`)],
    [3, read(toyPath, `^${toy}$`)],
  ];
  return pick(requests.flatMap(([weight, each]) => Array<ModelRequest>(weight).fill(each)));
}

/** Converts the state of a new or changed row to a body, and an item of a response to a state. */
const toBody = (state: State): object =>
  state.startsWith('c')
    ? { label: state, room: state, shelfPosition: 1, locked: false }
    : { name: state };
const toState = ({ label, name, locked }: Record<string, unknown>): State =>
  `${String(label ?? name)}${locked === true ? ':locked' : ''}`;

/** By how many milliseconds the clock of an instance in this process is ahead. */
const clock = new AsyncLocalStorage<number>();
shiftClock(() => clock.getStore() ?? 0);

/** What an instance in a process of its own runs first. */
const getPreload = (shift: number): string => `
  import { FEATURES } from 'file://${getBuiltFile('src/features.js')}';
  import { CagesModule } from 'file://${getBuiltFile('test/support/cages.module.js')}';
  import { shiftClock } from 'file://${getBuiltFile('test/support/clock.js')}';
  FEATURES.splice(1, FEATURES.length, CagesModule);
  shiftClock(() => ${shift});`;

const server = IS_POSTGRES ? await startPostgres() : undefined;
if (server !== undefined) process.env['TEST_DATABASE_URL'] = server.url;
const services = await createServices();
afterAll(() => Promise.all([services.close(), server?.stop()]));

/** Runs SQL on a connection of its own, without triggers and foreign keys, and keeps it open for a time. */
async function execute(url: string, sql: string, milliseconds = 0): Promise<void> {
  const wait = `SELECT pg_sleep(${milliseconds / 1_000})`;
  if (IS_POSTGRES) {
    await queryPostgres(url, `SET session_replication_role = replica; ${sql}; ${wait}`);
    return;
  }
  const file = new Database(url.replace('sqlite:', ''), { timeout: 0 });
  try {
    file.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
    await delay(milliseconds);
  } finally {
    file.close();
  }
}

/** Runs clients of two instances with one database, and injects faults. Every sixth history has processes. */
async function runHistory(seed: number): Promise<{ log: LogEntry[]; faults: Fault[] }> {
  const log: LogEntry[] = [];
  const faults: Fault[] = [];
  const pick = createPick(`${seed}`);
  const database = await createDatabase();
  const { url } = database;
  const proxy = await ChaosProxy.listen(IS_POSTGRES ? url : 'tcp://localhost:1');
  const ports = [await findFreePort(), await findFreePort()];
  /** Each sends a signal to an instance, and waits for its end. */
  const signals: ((name: NodeJS.Signals) => Promise<unknown>)[] = [];
  const agent = new Agent({ keepAlive: true });
  let known: Known = { paths: [], keyed: [] };
  let saved = known;
  const over = new AbortController();

  /** Starts an instance, again. @param shift by how many milliseconds its clock is ahead */
  const start = async (
    index: number,
    shift = 0,
    name: NodeJS.Signals = 'SIGTERM',
  ): Promise<void> => {
    await signals[index]?.(name);
    const DATABASE_URL = IS_POSTGRES && index === 1 ? proxy.proxiedUrl(url) : url;
    const env = { DATABASE_URL, BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, PORT: String(ports[index]) };
    if (seed % 6 === 0) {
      const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(getPreload(shift))}`;
      const { service } = await services.serve({ env: { ...env, NODE_OPTIONS } });
      signals[index] = async (signal) => {
        service.kill(signal);
        if (!/STOP|CONT/.test(signal)) await service.exited;
      };
    } else {
      const options = { features: [CategoriesModule, CagesModule], logger: false } as const;
      const app = await clock.run(shift, () => createApp(loadConfig(env), options));
      await clock.run(shift, () => app.listen(env.PORT, '127.0.0.1'));
      signals[index] = () => app.close();
    }
  };

  /** Sends a request to an instance, and others for the next pages of a list. */
  const send = async (request: ModelRequest, instance: number): Promise<LogEntry> => {
    const { method, path, key, body, effects = [] } = request;
    const headers = { ...HEADERS, ...(key && { 'idempotency-key': key }) };
    const options = { method, agent, headers, ...(body && { body: JSON.stringify(body) }) };
    const from = performance.now();
    const states: State[] = [];
    for (let after = ''; ;) {
      const address = `http://127.0.0.1:${ports[instance]}/v1${path}${after}`;
      const response = await sendRequest(address, options).catch(() => undefined);
      const { status = 0, text = '' } = response ?? {};
      const json = (text && JSON.parse(text)) as { id?: number; toy?: Toy; items?: object[] };
      if (status === 200 && method === 'GET')
        states.push(...[json.items ?? json].flat().map((item) => toState({ ...item })));
      after = /&after=[\w-]+(?=.*>; rel="next"$)/.exec(String(response?.headers.link))?.[0] ?? '';
      if (after !== '') continue;
      const entry = { ...request, instance, from, to: performance.now(), status, text, states };
      log.push(entry);
      const parent = path.replace(/\/\d+\/exchange$/, '');
      if (status === 201)
        known.paths.push([effects[0]!, `${parent}/${json.toy?.toyId ?? json.id}`]);
      return entry;
    }
  };

  /** Sends a request; one with a key until there is a response, or a restore. */
  const perform = async (request: ModelRequest, instance: number): Promise<void> => {
    const { keyed } = known;
    if (request.key !== undefined) keyed.push(request);
    for (let attempt = 0; attempt < 200 && keyed === known.keyed; attempt++) {
      const entry = await send(request, (instance + attempt) % 2);
      if (!isUnavailable(entry) || request.key === undefined) return;
      await delay(50);
    }
  };

  /** Sends requests, some at once, until the history is over. */
  const runClient = async (number: number): Promise<void> => {
    const pickOwn = createPick(`${seed} ${number}`);
    for (let turn = 0; !over.signal.aborted; turn++) {
      const [instance, size] = [pickOwn([0, 1]), pickOwn([1, 1, 1, 3, 7])];
      const names = Array.from({ length: size }, (_, item) => `${number}-${turn}-${item}`);
      const requests = names.map((name) => createRequest(pickOwn, name, known));
      await Promise.all(requests.map((request) => perform(request, instance)));
      await delay(pickOwn([0, 5, 10, 20]));
    }
  };

  const index = pick([0, 1]);
  const shift = pick([0, DAY_MS, -DAY_MS]);
  const duration = pick([50, 100, 200, 400, 2_500]);
  const lock = IS_POSTGRES ? `BEGIN; LOCK TABLE "${pick(TABLES)}"` : 'BEGIN IMMEDIATE';
  const actions: Record<string, () => Promise<unknown>> = {
    restart: () => start(index, shift),
    disconnect: async () => agent.destroy(),
    lock: () => execute(url, lock, duration),
    insert: () => execute(url, `INSERT INTO "categories" ("name") VALUES ('kx')`),
    restore: () => execute(url, RESTORE),
    ...(server && {
      cut: async () => proxy.cut(),
      crash: () => kill(server).then(() => restart(server)),
      terminate: () => execute(url, TERMINATE),
    }),
    ...(seed % 6 === 0 && {
      kill: () => start(index, shift, 'SIGKILL'),
      suspend: async () => {
        await signals[index]!('SIGSTOP');
        await delay(duration);
        await signals[index]!('SIGCONT');
      },
    }),
  };
  /** Injects a fault after more responses. A statement is repeated if it meets a lock. */
  const inject = async (name: string, action: () => Promise<unknown>): Promise<Times> => {
    const goal = log.length + pick([10, 20, 30]);
    await waitFor(() => log.length >= goal);
    const instances = { insert: [], backup: [], restart: [index], kill: [index] }[name] ?? [0, 1];
    const from = performance.now();
    const run = (): Promise<string> => action().then(() => 'done', String);
    await waitFor(run, (result) => result === 'done');
    const to = performance.now();
    faults.push({ name, instances, from, to });
    return { from, to };
  };

  try {
    await start(0);
    await start(1);
    await execute(url, TRIGGER);
    const create = {
      method: 'POST',
      path: '/cages',
      key: 'key',
      effects: ['c0'],
      body: toBody('c0'),
    };
    await perform(create, 0);
    const toy = { path: '/cages/1/toys', key: 'key-2', effects: ['t0/c0'], body: toBody('t0/c0') };
    await perform({ ...create, ...toy }, 0);
    const clients = [1, 2, 3, 4].map(runClient);
    await inject('backup', () => {
      saved = structuredClone(known);
      return execute(url, BACK_UP);
    });
    const names = Object.keys(actions);
    for (let count = pick([2, 3]); count > 0; count--) {
      const name = pick(names);
      names.splice(names.indexOf(name), 1);
      const times = await inject(name, actions[name]!);
      if (name === 'restore') known = saved;
      const inserted = { method: 'INSERT', path: '', effects: ['kx'], status: 201, text: '' };
      if (name === 'insert') log.push({ ...inserted, ...times, instance: 2, states: [] });
    }
    over.abort();
    await Promise.all(clients);
    // The third time, nothing is cached.
    for (const instance of [0, 1, 0]) {
      await waitFor(async () => isSuccess(await send(read('/categories', '^k'), instance)));
      await send(read('/cages?limit=100', '^c'), instance);
      for (const [row, path] of known.paths.filter(([each]) => each.startsWith('c')))
        await send(read(`${path}/toys?limit=100`, `/${row}$`), instance);
      await start(instance);
    }
  } finally {
    over.abort();
    agent.destroy();
    await Promise.all(signals.map((signal) => signal('SIGKILL')));
    await proxy.close();
    await database.drop();
  }
  return { log, faults };
}

describe('two instances with one database', () => {
  it.each(Array.from({ length: HISTORIES }, (_, index) => FIRST_SEED + index))(
    'keep what they acknowledged, once, while faults are injected (seed %i)',
    async (seed) => {
      const { log, faults } = await runHistory(seed);
      expect([log.length >= 30, faults.length > 2]).toEqual([true, true]);
      const violations = checkHistory(log, faults);
      const file = `${tmpdir()}/petstore-history-${DATABASE}-${seed}.json`;
      const content = JSON.stringify({ violations, faults, log }, undefined, 1);
      if (violations.length > 0) await writeFile(file, content);
      expect({ file, violations }).toEqual({ file, violations: [] });
    },
  );
});
