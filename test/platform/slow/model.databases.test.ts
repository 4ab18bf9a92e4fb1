/** Random histories of requests and faults, whose logs are checked against a model of what was acknowledged. */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { createApp } from '../../../src/platform/application/create-app.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { createDatabase, toRoot } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { CagesModule } from '../support/cages.module.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { DATABASE } from '../support/databases.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { findFreePort, startPostgres } from '../support/postgres.js';
import { queryPostgres } from '../support/postgres-client.js';
import { kill, restart } from '../support/postgres-faults.js';
import { BOOTSTRAP_KEY, createServices } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const HISTORIES = Number(process.env['HISTORIES'] ?? 24);
const FIRST_SEED = Number(process.env['SEED'] ?? 1);
/** The documented time after a fault until requests succeed again. */
const RECOVERY_MS = 5_000;
/** How long a transaction may wait. */
const SLOW_MS = 2_000;
const NEVER = { from: Infinity, to: Infinity };
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
type Pick = <T>(values: readonly T[]) => T;
interface ModelRequest {
  readonly method: string;
  readonly path: string;
  /** Matches the rows that it reads, and the parent of what it creates. */
  readonly rows: RegExp;
  /** The states in which it leaves rows. */
  readonly effects: readonly State[];
  /** The Idempotency-Key of the request. */
  readonly key?: string | undefined;
}
/** A request, when it was sent and received, what was read or created, and the response; 0 if there was none. */
interface LogEntry extends ModelRequest, Times {
  readonly instance: number;
  readonly status: number;
  readonly text: string;
  readonly states: readonly State[];
  readonly created: string;
}

/** A row in a response: its name, and whether it is locked. */
const ROW = /"(?:label|name)":"([^"]+)"(?:[^}]*"locked":(true))?/g;
const toRow = (state: State): string => state.split(/[#:]/)[0]!;
const isSuccess = ({ status }: LogEntry): boolean => status >= 200 && status < 300;
const isUnavailable = ({ status }: LogEntry): boolean => status === 0 || status === 503;
const isRejected = ({ status, effects }: LogEntry): boolean =>
  status === 500 ? effects.join().endsWith('!') : status >= 400 && status < 500;

/** Finds rows that are lost, stale, stored twice or though rejected, and requests with several or wrong results. */
function checkStates(log: readonly LogEntry[]): string[] {
  const violations: string[] = [];
  const requests = Map.groupBy(log, (entry) => entry.key ?? entry);
  /** What may have happened, at the earliest and at the latest. */
  const writes = [...requests.values()].flatMap((tries) => {
    const from = Math.min(...tries.map((entry) => entry.from));
    const to = Math.min(...tries.filter(isSuccess).map((entry) => entry.to));
    const effects = tries.every(isRejected) ? [] : tries[0]!.effects;
    return effects.map((state) => ({ state, tries, from, to }));
  });
  const byState = Map.groupBy(writes, ({ state }) => state);
  // What was read has happened.
  for (const { states, to } of log)
    for (const [write, other] of states.map((state) => byState.get(state) ?? []))
      if (write && !other) write.to = Math.min(write.to, to);

  for (const [state, all] of byState)
    if (all.filter(({ tries }) => tries.some(isSuccess)).length > 1)
      violations.push(`${state} happened twice`);
  for (const tries of requests.values()) {
    const { method, path, key } = tries[0]!;
    const results = new Set(tries.filter(isSuccess).map(({ text }) => text));
    const hasFailed = tries.some((entry) => entry.status === 500 && !isRejected(entry));
    const hasHappened = writes.some((write) => write.tries === tries && write.to < Infinity);
    if (results.size > 1 || hasFailed || (hasHappened && tries.some(isRejected)))
      violations.push(`${method} ${path} has a wrong result, key ${key}`);
  }

  const byRow = Map.groupBy(writes, ({ state }) => toRow(state));
  for (const { method, path, status, rows, states, from, to } of log) {
    if (status !== 404 && status !== 400 && (method !== 'GET' || status !== 200)) continue;
    const read = states.map(toRow);
    if (new Set(read).size < read.length) violations.push(`${path} has a row twice`);
    const missing = [...byRow.keys()].filter((row) => rows.test(row) && !read.includes(row));
    for (const state of [...states, ...missing.map((row) => `${row}:gone`)]) {
      const initial = { state: `${toRow(state)}:gone`, from: -1, to: -1 };
      const all = [initial, ...(byRow.get(toRow(state)) ?? [])];
      const isCurrent = (write: Times): boolean =>
        write.from < to && !all.some((later) => write.to < later.from && later.to < from);
      if (!all.some((write) => write.state === state && isCurrent(write)))
        violations.push(`${state} was read from ${path} at ${from}`);
    }
  }
  return violations;
}

/** Splits a log at the restore of a backup: what was before it, and what is in the backup or was later. */
function splitLog(log: readonly LogEntry[], faults: readonly Fault[]): (readonly LogEntry[])[] {
  const backup = faults.find(({ name }) => name === 'backup')!;
  const { from, to } = faults.find(({ name }) => name === 'restore') ?? NEVER;
  const forget = (each: LogEntry): LogEntry => ({ ...each, status: 0, states: [], to: Infinity });
  const isKept = (each: LogEntry) => each.from < backup.to || each.to > from || isUnavailable(each);
  const isCertain = (each: LogEntry) => each.to < backup.from || each.from > to;
  return [
    log.filter((each) => each.from < from).map((each) => (each.to < from ? each : forget(each))),
    log.filter(isKept).map((each) => (isCertain(each) ? each : forget(each))),
  ];
}

/** Finds requests that failed though no fault affected their instance. A busy machine may be slow. */
function checkAvailability(log: readonly LogEntry[], faults: readonly Fault[]): string[] {
  const isAffected = ({ instance, from, to }: LogEntry): boolean =>
    faults
      .filter((fault) => fault.instances.includes(instance))
      .some((fault) => to > fault.from && from < fault.to + RECOVERY_MS);
  const isSlow = (entry: LogEntry): boolean =>
    isUnavailable(entry) && entry.to - entry.from >= SLOW_MS;
  const others = log.filter((entry) => !isAffected(entry) && !isRejected(entry) && !isSlow(entry));
  const failed = others.filter(isUnavailable);
  const isEnough = others.filter(isSuccess).length >= others.length * 0.9;
  return [...failed.map(({ path }) => `${path} failed`), ...(isEnough ? [] : ['Many failed'])];
}

/** Returns a function that picks a value at random, the same ones for the same seed. */
function createPick(seed: string): Pick {
  let count = 0;
  const getRandom = () => createHash('sha256').update(`${seed} ${count++}`).digest().readUInt32BE();
  return (values) => values[getRandom() % values.length]!;
}

/** Converts the state of a new or changed row to a body. */
const toBody = (name: State = ''): object =>
  name.startsWith('c') ? { label: name, room: name, shelfPosition: 1, locked: false } : { name };
function toRequest(method: string, path: string, rows: string, ...effects: State[]) {
  return { method, path, effects, rows: RegExp(rows) };
}

/** Creates a random request, whose row has this name, or returns an earlier one. */
function createRequest(pick: Pick, name: string, known: readonly LogEntry[]): ModelRequest {
  const pickRow = (path: RegExp): [row: string, path: string] => {
    const { effects, created } = pick(known.filter((entry) => path.test(entry.created)));
    return [effects[0]!, created];
  };
  const [cage, cagePath] = pickRow(/^.cages.\d+$/);
  const [toy, toyPath] = pickRow(/toys/);
  const key = pick([`key-${name}`, `key-${name}`, undefined]);
  // One of two numbers may be created by several requests, and is not deleted.
  const label = `c${pick([name, name, name, name.replace(/-\d+$/, '')])}`;
  const query = `?limit=${pick([2, 100])}`;
  const requests: [weight: number, ModelRequest][] = [
    [6, { ...toRequest('POST', '/categories', '^-', `k${name}`), key }],
    [1, { ...toRequest('POST', '/categories', '^-', `k${name}!`), key }],
    [3, { ...toRequest('POST', '/cages', '^-', label), key }],
    [3, { ...toRequest('POST', `${cagePath}/exchange`, '^-', `c${name}`, `${cage}:locked`), key }],
    [4, { ...toRequest('POST', `${cagePath}/toys`, `^${cage}$`, `t${name}/${cage}`), key }],
    [5, toRequest(pick(['PUT', 'PATCH']), toyPath, `^${toy}$`, `${toy}#${name}`)],
    [4, toRequest('DELETE', toyPath, `^${toy}$`, `${toy}:gone`)],
    [/-.*-/.test(cage) ? 4 : 0, toRequest('DELETE', cagePath, `^${cage}$`, `${cage}:gone`)],
    [7, pick(known.filter((entry) => entry.key !== undefined))],
    [4, toRequest('GET', '/categories', '^k')],
    [2, toRequest('GET', `/cages${query}`, '^c')],
    [3, toRequest('GET', `${cagePath}/toys${query}`, `/${cage}$`)],
    [2, toRequest('GET', cagePath, `^${cage}$`)],
    [3, toRequest('GET', toyPath, `^${toy}$`)],
  ];
  return pick(requests.flatMap(([weight, each]) => Array<ModelRequest>(weight).fill(each)));
}

/** What an instance in a process of its own runs first. @param shift by how many milliseconds its clock is ahead */
const getPreload = (shift: number): string => `
  import { FEATURES } from 'file://${getBuiltFile('src/features.js')}';
  import { CategoriesModule } from 'file://${getBuiltFile('src/modules/categories/categories.module.js')}';
  import { CagesModule } from 'file://${getBuiltFile('test/platform/support/cages.module.js')}';
  FEATURES.splice(0, FEATURES.length, CategoriesModule, CagesModule);
  globalThis.Date = class extends Date {
    static now() { return super.now() + ${shift}; }
    constructor(...values) { super(...(values.length > 0 ? values : [Date.now()])); }
  };`;

const server = IS_POSTGRES ? await startPostgres() : undefined;
if (server !== undefined) process.env['TEST_DATABASE_URL'] = server.url;
const services = await createServices();
afterAll(() => Promise.all([services.close(), server?.stop()]));

/** Runs SQL on a connection of its own, without triggers and foreign keys, and keeps it open for a time. */
async function execute(url: string, sql: string, milliseconds = 0): Promise<unknown> {
  const wait = `SELECT pg_sleep(${milliseconds / 1_000})`;
  if (IS_POSTGRES)
    return queryPostgres(url, `SET session_replication_role = replica; ${sql}; ${wait}`);
  const file = new Database(url.replace('sqlite:', ''), { timeout: 0 });
  try {
    file.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
    return await delay(milliseconds);
  } finally {
    file.close();
  }
}

/** Runs clients of two instances with one database, and injects faults. Every sixth history has processes. */
async function runHistory(seed: number): Promise<{ log: LogEntry[]; faults: Fault[] }> {
  const log: LogEntry[] = [];
  const faults: Fault[] = [];
  const pick = createPick(`${seed}`);
  const [index, shift] = [pick([0, 1]), pick([DAY_MS, -DAY_MS])];
  const database = await createDatabase();
  const { url } = database;
  // The other instance may be far from the database: what it is sent may be stale when it arrives.
  const proxy = await ChaosProxy.listen(IS_POSTGRES ? url : 'tcp://localhost:1', pick([0, 10]));
  const ports = [await findFreePort(), await findFreePort()];
  /** Each sends a signal to an instance, and waits for its end. */
  const signals: ((name: NodeJS.Signals) => Promise<unknown>)[] = [];
  const agent = new Agent({ keepAlive: true });
  /** What clients know; a restore makes them forget. */
  const clients = { known: [] as LogEntry[], isPaused: false, isOver: false };
  let saved = clients.known;

  /** Starts an instance, again. In processes, the clock of one is wrong. */
  const start = async (instance: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    await signals[instance]?.(signal);
    const DATABASE_URL = IS_POSTGRES && instance === 1 ? proxy.proxiedUrl(url) : url;
    const env = { DATABASE_URL, BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, PORT: String(ports[instance]) };
    if (seed % 6 === 0) {
      const preload = encodeURIComponent(getPreload(instance === index ? shift : 0));
      const NODE_OPTIONS = `--import=data:text/javascript,${preload}`;
      const { service } = await services.serve({ env: { ...env, NODE_OPTIONS } });
      signals[instance] = async (name) => {
        service.kill(name);
        if (!/STOP|CONT/.test(name)) await service.exited;
      };
    } else {
      const root = toRoot([CategoriesModule, CagesModule]);
      const app = await createApp(loadConfig(PRODUCT, env), root, { logger: false });
      await app.listen(env.PORT, '127.0.0.1');
      signals[instance] = () => app.close();
    }
  };

  /** Sends a request to an instance, and others for the next pages of a list. */
  const send = async (
    request: ModelRequest,
    instance: number,
    known = clients.known,
  ): Promise<LogEntry> => {
    const { method, path, key, effects } = request;
    const headers = { ...HEADERS, ...(key && { 'idempotency-key': key }) };
    const body = method.startsWith('P') ? JSON.stringify(toBody(effects[0])) : '';
    const from = performance.now();
    const states: State[] = [];
    for (let after = ''; ;) {
      const address = `http://127.0.0.1:${ports[instance]}/v1${path}${after}`;
      const options = { method, agent, headers, body };
      const response = await sendRequest(address, options).catch(() => undefined);
      const { status = 0, text = '' } = response ?? {};
      if (status === 200 && method === 'GET')
        for (const [, name, locked = ''] of text.matchAll(ROW))
          states.push(`${name}${locked && ':locked'}`);
      after = /&after=[\w-]+(?=.*>; rel="next"$)/.exec(String(response?.headers.link))?.[0] ?? '';
      if (after !== '') continue;
      const id = /(?<=[iI]d":"?)[\w-]+/.exec(text)?.[0];
      const created = status === 201 ? `${path.replace(/\/\d+\/exchange$/, '')}/${id}` : '';
      const result = { instance, from, to: performance.now(), status, text, states, created };
      const entry = { ...request, ...result };
      log.push(entry);
      known.push(entry);
      return entry;
    }
  };

  /** Sends a request; one with a key until there is a response, or a restore. */
  const perform = async (request: ModelRequest, instance: number): Promise<void> => {
    // After a restore, its path may be that of another row.
    const { known } = clients;
    for (let attempt = 0; attempt < 200 && known === clients.known; attempt++) {
      const entry = await send(request, (instance + attempt) % 2, known);
      if (!isUnavailable(entry) || request.key === undefined) return;
      await delay(50);
    }
  };

  /** Sends requests, some at once and some twice, until the history is over. */
  const runClient = async (number: number): Promise<void> => {
    const pickOwn = createPick(`${seed} ${number}`);
    for (let turn = 0; !clients.isOver; turn++) {
      const [instance, size] = [pickOwn([0, 1]), pickOwn([1, 1, 1, 3, 7])];
      const names = Array.from({ length: size }, (_, item) => `${number}-${turn}-${item}`);
      const requests = names.map((name) => createRequest(pickOwn, name, clients.known));
      const again = requests.filter(({ key }) => key !== undefined && pickOwn([true, false]));
      await Promise.all([...requests, ...again].map((request) => perform(request, instance)));
      do await delay(pickOwn([0, 5, 10, 20]));
      while (clients.isPaused);
    }
  };

  /** Reads all lists, which an instance caches. */
  const readAll = async (instance: number): Promise<void> => {
    const list = toRequest('GET', '/categories', '^k');
    await waitFor(async () => isSuccess(await send(list, instance)));
    await send(toRequest('GET', '/cages?limit=100', '^c'), instance);
    const cages = new Map(clients.known.map(({ effects, created }) => [created, effects[0]]));
    for (const [path, row] of cages)
      if (row?.startsWith('c') && path !== '')
        await send(toRequest('GET', `${path}/toys?limit=100`, `/${row}$`), instance);
  };

  const duration = pick([50, 100, 200, 400, 2_500]);
  const lock = IS_POSTGRES ? `BEGIN; LOCK TABLE "${pick(TABLES)}"` : 'BEGIN IMMEDIATE';
  const actions: Record<string, () => Promise<unknown>> = {
    restart: () => start(index),
    disconnect: async () => agent.destroy(),
    lock: () => execute(url, lock, duration),
    restore: () => execute(url, RESTORE),
    ...(server && {
      cut: async () => proxy.cut(),
      crash: () => kill(server).then(() => restart(server)),
      terminate: () => execute(url, TERMINATE),
    }),
    ...(seed % 6 === 0 && {
      kill: () => start(index, 'SIGKILL'),
      suspend: async () => {
        await signals[index]!('SIGSTOP');
        await delay(duration);
        await signals[index]!('SIGCONT');
      },
    }),
  };
  /** Injects a fault after more responses. A statement is repeated if it meets a lock. */
  const inject = async (name: string, action: () => Promise<unknown>): Promise<void> => {
    const goal = log.length + pick([10, 20, 30]);
    await waitFor(() => log.length >= goal);
    // Without clients, no later change hides what a fault leaves.
    clients.isPaused = pick([true, false]);
    if (clients.isPaused) await Promise.all([0, 1].map(readAll));
    const instances = { backup: [], restart: [index], kill: [index] }[name] ?? [0, 1];
    const from = performance.now();
    const run = (): Promise<string> => action().then(() => 'done', String);
    await waitFor(run, (result) => result === 'done');
    faults.push({ name, instances, from, to: performance.now() });
    if (name === 'restore') clients.known = saved;
    if (clients.isPaused) await Promise.all([0, 1].map(readAll));
    clients.isPaused = false;
  };

  try {
    await Promise.all([start(0), start(1)]);
    // One waits for the migrations of the other.
    for (const port of ports)
      await waitFor(
        () => sendRequest(`http://127.0.0.1:${port}/readyz`),
        ({ status }) => status === 200,
      );
    await execute(url, TRIGGER);
    await perform({ ...toRequest('POST', '/cages', '^-', 'c0'), key: 'cage' }, 0);
    await perform({ ...toRequest('POST', '/cages/1/toys', '^c0$', 't0/c0'), key: 'toy' }, 0);
    const running = [1, 2, 3, 4].map(runClient);
    await inject('backup', () => {
      saved = [...clients.known];
      return execute(url, BACK_UP);
    });
    const names = Object.keys(actions);
    for (let count = pick([2, 3]); count > 0; count--) {
      const [name] = names.splice(names.indexOf(pick(names)), 1);
      await inject(name!, actions[name!]!);
    }
    clients.isOver = true;
    await Promise.all(running);
    const keyed = new Map(clients.known.map((entry) => [entry.key, entry]));
    keyed.delete(undefined);
    // The third time, nothing is cached.
    for (const instance of [0, 1, 0]) {
      await Promise.all([...keyed.values()].map((entry) => perform(entry, instance)));
      await readAll(instance);
      await start(instance);
    }
  } finally {
    clients.isOver = true;
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
      const states = splitLog(log, faults).flatMap(checkStates);
      const violations = [...new Set([...states, ...checkAvailability(log, faults)])];
      const file = `${tmpdir()}/petstore-history-${DATABASE}-${seed}.json`;
      await writeFile(file, JSON.stringify({ violations, faults, log }, undefined, 1));
      expect({ file, violations }).toEqual({ file, violations: [] });
    },
  );
});
