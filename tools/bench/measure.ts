import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createList, NEW_CATEGORY, type NewCategory } from './categories.js';
import * as databases from './databases.js';
import { startLoad } from './load.js';
import { type Metric, type Row, type Target, type TargetName, TARGETS } from './rows.js';
import { AUTHORIZATION, readCpu, readMemory, type Server, startServer } from './servers.js';

/** The slices measured in one start of the servers, by row title and target. A slice is a second of load, or the startup. */
export type Slices = Record<string, Partial<Record<TargetName, Slice[]>>>;
type Slice = Partial<Record<Metric, number>>;

/**
 * The seconds of load before the first slice of each kind of work. Measured on two cores (2026-11-27, Node 26): the CPU time of
 * a list request in the first seconds was 45.2, 26.0, 27.8, 24.0, 26.3, 24.4 and 23.0 µs, that of a create request 69.2, 65.9,
 * 55.0, 52.1, 48.8, 47.4 and 46.1 µs. Fastify's is constant after 4 seconds, and 2.
 */
const WARM_UP_SECONDS = 5;
const PAIRS = 3;

/** Headers that the list responses of all targets have, so that the comparison is fair. */
const LIST_HEADERS =
  'cache-control content-security-policy content-type etag vary x-content-type-options x-request-id';

/** Returns the target in whose process a target is measured. */
const getProcessName = (name: TargetName): TargetName =>
  name.replace(/, (key|retries)$/, '') as TargetName;

/** Measures the rows of a group with new processes and databases, which all run at the same time. */
export async function measureStart(rows: readonly Row[], isReversed: boolean): Promise<Slices> {
  const names = new Set(rows.flatMap(({ of, rivals }) => [...rivals, of].map(getProcessName)));
  const servers = new Map<string, Server>();
  const slices: Slices = {};
  try {
    for (const name of isReversed ? [...names].toReversed() : names)
      servers.set(name, await startServer(TARGETS[name], rows[0]!.group));
    for (const row of rows) slices[row.title] = await measureRow(row, servers);
    return slices;
  } finally {
    for (const { stop } of servers.values()) await stop();
  }
}

async function measureRow(row: Row, servers: ReadonlyMap<string, Server>) {
  const slices: Slices[string] = {};
  const targets = [...row.rivals, row.of].map((name) => {
    const server = servers.get(getProcessName(name))!;
    return { name, server };
  });
  if (row.work === 'startup') {
    // After a second, the garbage of startup has been collected, and connections are closed.
    await sleep(1000);
    for (const { name, server } of targets)
      slices[name] = [{ startup: server.startup, memory: readMemory(server.pid) }];
    return slices;
  }
  databases.setSync(row.sync);
  for (const { name, server } of targets) {
    if (name !== 'raw') await databases.reset(server.database, row);
    await checkResponses(server.url, row);
    const kind = `${row.work} ${name}`;
    if (!server.warm.has(kind)) await measureWork(row, name, server, WARM_UP_SECONDS);
    server.warm.add(kind);
  }
  for (let pass = 0; pass < PAIRS; pass++)
    for (const { name, server } of pass % 2 === 0 ? targets : targets.toReversed()) {
      if (row.work === 'create') await databases.reset(server.database, row);
      await server.database.query(server.database.checkpoint);
      (slices[name] ??= []).push(await measureWork(row, name, server, 1));
    }
  return slices;
}

/** Waits until the requests that were in flight at the end of a load are finished. */
async function waitUntilIdle(pid: number): Promise<void> {
  for (let before = -Infinity; readCpu(pid) - before > 1000; await sleep(20)) before = readCpu(pid);
}

/** Sends the requests of a row for some seconds. @returns the metrics of a request */
async function measureWork(row: Row, name: TargetName, server: Server, seconds: number) {
  const { url, pid, database } = server;
  const { hasKey, isRetried }: Target = TARGETS[name];
  const retries = isRetried ? startLoad(url, { ...row, connections: 300 }, 60, 300) : undefined;
  if (retries) await sleep(300);
  const postgres = await databases.getPostgresPid();
  const [cpu, databaseCpu] = [readCpu(pid), readCpu(postgres)];
  const { result } = startLoad(url, row, seconds, hasKey ? 1e9 : undefined);
  const { requests, p99, ...measured } = await result;
  const after = { cpu: readCpu(pid), databaseCpu: readCpu(postgres) };
  retries?.child.kill('SIGINT');
  await retries?.result;
  await waitUntilIdle(pid);
  if (row.work === 'create') {
    const [inserted] = await database.query('SELECT count(*) AS count FROM categories');
    ok(Number(inserted!['count']) >= requests, 'lost creates');
  }
  return {
    cpu: (after.cpu - cpu) / requests,
    databaseCpu: (after.databaseCpu - databaseCpu) / requests,
    throughput: requests / measured.seconds,
    p99,
  };
}

/** Checks that a server does the work that is measured. @throws {AssertionError} */
async function checkResponses(url: string, { work, categories }: Row): Promise<void> {
  equal((await fetch(url, { headers: { Authorization: 'Bearer invalid' } })).status, 401);
  if (work === 'list') {
    const response = await fetch(url, { headers: AUTHORIZATION });
    const list = (await response.json()) as NewCategory[];
    deepEqual(list.map(getText), createList(categories).map(getText));
    for (const name of LIST_HEADERS.split(' ')) ok(response.headers.has(name), `no ${name}`);
    return;
  }
  const headers = { ...AUTHORIZATION, 'Content-Type': 'application/json' };
  const post = (body: NewCategory & { unknown?: true }): Promise<Response> =>
    fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  for (const invalid of [{ name: ' ' }, { unknown: true as const }])
    equal((await post({ ...NEW_CATEGORY, ...invalid })).status, 400);
  const response = await post(NEW_CATEGORY);
  equal(response.status, 201);
  deepEqual(getText((await response.json()) as NewCategory), NEW_CATEGORY);
}

const getText = ({ name, description }: NewCategory): NewCategory => ({ name, description });
