import { randomUUID } from 'node:crypto';
import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createList, NEW_CATEGORY } from './categories.js';
import { createDatabase, type Database } from './databases.js';
import { type Load, runLoad } from './load.js';
import type { Measurement } from './report.js';
import type { Row, Target } from './rows.js';
import { AUTHORIZATION, readCpu, readMemory, type Server, startServer } from './servers.js';

/** Durations in seconds. */
export type Settings = Record<'warmUp' | 'load' | 'idle', number>;

/** Headers that the list responses of all targets have, so that the comparison is fair. */
const LIST_HEADERS =
  'cache-control content-security-policy content-type etag vary x-content-type-options x-request-id';

/** Measures one target in one row, with new processes and a new database. */
export async function measure(target: Target, row: Row, settings: Settings): Promise<Measurement> {
  const { work, connections, rate } = row;
  return withServers(target, row, async (servers, database) => {
    const pids = servers.map(({ child }) => child.pid!);
    if (work === 'startup') {
      await sleep(settings.idle * 1000);
      return { startup: servers[0]!.startup, memory: readMemory(pids[0]!) };
    }
    if (work === 'retries') return measureRetries(servers, target, row, settings);
    const create = work === 'create';
    for (const { url } of servers) await checkResponses(url, row);
    const load = (seconds: number): Load => {
      const headers = target.hasKey === true ? newKeys() : {};
      return { servers, connections, seconds, create, headers };
    };
    const before = create ? await count(database) : 0;
    const warmUp = await runLoad(load(settings.warmUp * servers.length));
    await waitUntilIdle(pids);
    const [cpu, databaseCpu] = [readCpu(pids), database.readCpu()];
    // At a fixed rate there is less to measure in a second.
    const duration = rate === undefined ? settings.load : 3 * settings.load;
    const { requests, seconds, ...latencies } = await runLoad({ ...load(duration), rate });
    const after = { cpu: readCpu(pids), databaseCpu: database.readCpu() };
    if (create) ok((await count(database)) - before >= warmUp.requests + requests, 'lost creates');
    return {
      throughput: requests / seconds,
      ...latencies,
      cpu: (after.cpu - cpu) / requests,
      databaseCpu: (after.databaseCpu - databaseCpu) / requests,
    };
  });
}

/** Returns the header of requests with a key each. */
const newKeys = () => ({ 'Idempotency-Key': `${randomUUID()}-PLACEHOLDER` });

/**
 * Measures create requests with new keys and without, while others repeat requests with 300 keys, which get 201, too.
 *
 * @returns the values of the half that has the lower throughput
 */
async function measureRetries(
  servers: readonly Server[],
  { isRetried = false }: Target,
  { connections }: Row,
  { warmUp, load }: Settings,
): Promise<Measurement> {
  const create = { servers, connections: connections / 2, seconds: load, create: true };
  const retries = { ...create, connections: 300, values: 300, headers: newKeys() };
  await runLoad({ ...retries, seconds: warmUp });
  const [withKeys, without] = await Promise.all([
    runLoad({ ...create, headers: newKeys() }),
    runLoad(create),
    isRetried && runLoad({ ...retries, seconds: load + 1 }),
  ]);
  const slower = withKeys.requests < without.requests ? withKeys : without;
  return { throughput: slower.requests / slower.seconds, p50: slower.p50, p99: slower.p99 };
}

/** Runs servers with a seeded database. */
export async function withServers<Result>(
  target: Target,
  { storage, categories }: Pick<Row, 'storage' | 'categories'>,
  use: (servers: readonly Server[], database: Database) => Promise<Result>,
): Promise<Result> {
  const database = await createDatabase(storage);
  const servers: Server[] = [];
  try {
    const env = { ...database.env, LIST: String(categories) };
    for (let core = 0; core < (target.instances ?? 1); core++)
      servers.push(await startServer(target, env, core));
    const rows = createList(target.mode === 'list' ? 0 : categories).map(
      ({ name, description }) => `('${name}', ${description ? `'${description}'` : 'NULL'})`,
    );
    await insert(database, 'categories (name, description)', rows);
    return await use(servers, database);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    await database.drop();
  }
}

/** Inserts rows, each written in SQL, into the columns of a table. */
export async function insert({ query }: Database, into: string, rows: string[]): Promise<void> {
  for (let start = 0; start < rows.length; start += 1000)
    await query(
      `INSERT INTO ${into} VALUES ${rows.slice(start, start + 1000).join()} RETURNING id`,
    );
}

async function count({ query }: Database): Promise<number> {
  const [row] = (await query('SELECT count(*) AS count FROM categories')) as [{ count: string }];
  return Number(row.count);
}

/** The end of a load leaves requests in flight. */
async function waitUntilIdle(pids: readonly number[]): Promise<void> {
  for (let before = NaN; before !== readCpu(pids); await sleep(100)) before = readCpu(pids);
}

export function post(url: string, body: object = NEW_CATEGORY): Promise<Response> {
  const headers = { ...AUTHORIZATION, 'Content-Type': 'application/json' };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** @throws {AssertionError} if a server does not do the work that is measured */
async function checkResponses(url: string, { work, categories }: Row): Promise<void> {
  equal((await fetch(url, { headers: { Authorization: 'Bearer invalid' } })).status, 401);
  if (work === 'list') {
    const response = await fetch(url, { headers: AUTHORIZATION });
    deepEqual(await response.json(), createList(categories));
    for (const name of LIST_HEADERS.split(' ')) ok(response.headers.has(name), `no ${name}`);
    return;
  }
  equal((await post(url, { ...NEW_CATEGORY, name: ' ' })).status, 400);
  equal((await post(url, { ...NEW_CATEGORY, unknown: true })).status, 400);
  const response = await post(url);
  equal(response.status, 201);
  const { id, ...category } = (await response.json()) as { id: number };
  ok(id > 0);
  deepEqual(category, NEW_CATEGORY);
}
