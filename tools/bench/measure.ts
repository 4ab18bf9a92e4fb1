import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fdatasyncSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DatabaseBackend, createSqliteBackend } from './databases.js';
import { type Load, runLoad } from './load.js';
import { startPostgres } from './postgres.js';
import {
  API_KEY,
  type RunningServer,
  type Target,
  TARGETS,
  readCpu,
  readMemory,
  startServer,
  startServers,
  stopServers,
} from './targets.js';
import type { Scenario } from './scenarios.js';

/** The measurement of one target in one scenario; CPU time and memory are sums over the instances. */
export interface Measurement {
  readonly requestsPerSecond: number;
  /** Latency in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time (user and system) per request in microseconds; Linux only. */
  readonly cpu: number | undefined;
  /** The same for the database processes; undefined with SQLite, which runs in the target's process. */
  readonly databaseCpu: number | undefined;
  /** Peak memory in bytes; Linux only. */
  readonly peakMemory: number | undefined;
}

/** Number of repetitions and durations. */
export interface Settings {
  readonly rounds: number;
  /** Seconds of load per instance before the measurement. */
  readonly warmUpSeconds: number;
  /** Seconds of load during the measurement. */
  readonly durationSeconds: number;
  /** Factor applied to the request count of scenarios that end after a number of responses. */
  readonly requestCountFactor: number;
  /** Number of startups measured per target, each without a database and then with one. */
  readonly startups: number;
  /** Seconds without requests before the idle memory is read. */
  readonly idleSeconds: number;
}

/** The startup time and the idle memory of a target. */
export interface StartupMeasurement {
  /** Milliseconds until the first 200 response to a list request, without an existing database. */
  readonly firstStartup: number;
  /** The same with an existing database. */
  readonly nextStartup: number;
  /** In bytes; Linux only. */
  readonly idleMemory: number | undefined;
}

const DESCRIPTION = 'Seeded before the load starts, so that every list is alike.';
const NEW_CATEGORY = { name: 'category created under load', description: DESCRIPTION };
const AUTHORIZATION = { Authorization: `Bearer ${API_KEY}` };
const JSON_BODY = { ...AUTHORIZATION, 'Content-Type': 'application/json' };
const SEED_CONCURRENCY = 64;
/** Maximum duration of a load that ends after a number of responses. */
const MAX_DURATION_SECONDS = 30;

/** Parent directory of the databases, on the project's disk because the temporary directory may be in memory. */
const directory = mkdtempSync(
  join(import.meta.dirname, '..', '..', '..', 'node_modules', '.bench-'),
);
// Retries because a database that is shutting down may still create files.
process.on('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }));

const sqlite = createSqliteBackend(directory);
let postgres: Promise<DatabaseBackend> | undefined;
/** Names of the seeded databases by target, engine and size; each measurement uses a copy of one. */
const seededDatabases = new Map<string, Promise<string>>();
let copyCount = 0;

/** Returns the database backends used so far. */
export async function getUsedBackends(): Promise<DatabaseBackend[]> {
  return postgres === undefined ? [sqlite] : [sqlite, await postgres];
}

/** Names of the header fields of each target's list response, by the target's title. */
export const listHeaders = new Map<string, readonly string[]>();

/**
 * Measures one target in one scenario, with new processes and a new copy of the seeded database.
 * @throws {Error} if a response is unexpected before, during or after the load
 */
export async function measure(
  target: Target,
  scenario: Scenario,
  { warmUpSeconds, durationSeconds, requestCountFactor }: Settings,
): Promise<Measurement> {
  const backend = await getBackend(scenario);
  const name = `copy_${++copyCount}`;
  const database = await backend.create(
    name,
    target.listOnly ? undefined : await getSeededDatabase(target, scenario, backend),
  );
  const instances = await startServers(target, database, scenario.instances ?? 1);
  const urls = instances.map(({ url }) => url);
  const readServerCpu = (): number | undefined => sum(instances.map(({ pid }) => readCpu(pid)));
  try {
    if (target.listOnly) await Promise.all(urls.map((url) => seed(url, scenario.categories)));
    const lists = await Promise.all(
      instances.map((instance) => checkResponses(instance, scenario.categories)),
    );
    const { etag, bytes } = lists[0]!;
    if (scenario.conditional && etag === null) throw new Error('the list has no ETag');
    const requests = Math.round((scenario.requests ?? 0) * requestCountFactor);
    const createIdempotencyKey = (): string => (scenario.idempotent ? randomUUID() : '');
    const load: Load = {
      urls,
      key: API_KEY,
      connections: scenario.connections,
      durationSeconds: scenario.requests === undefined ? durationSeconds : MAX_DURATION_SECONDS,
      requests,
      writeInterval: scenario.writeInterval,
      etag: scenario.conditional ? (etag ?? '') : '',
      createBody: JSON.stringify(NEW_CATEGORY),
      listStatus: scenario.conditional ? 304 : 200,
      idempotencyKey: createIdempotencyKey(),
      listLength: scenario.conditional ? 0 : bytes,
      createdLength: JSON.stringify({ id: 0, ...NEW_CATEGORY }).length - 1,
      lastId: scenario.categories,
    };
    const warmUp = await runLoad({
      ...load,
      idempotencyKey: createIdempotencyKey(),
      // The instances share a core, so the warm-up is extended to give each the full CPU time.
      durationSeconds:
        scenario.requests === undefined ? warmUpSeconds * instances.length : MAX_DURATION_SECONDS,
      requests: Math.round(requests / 2),
    });
    await waitForIdleCpu(readServerCpu);
    const cpuBefore = readServerCpu();
    const databaseCpuBefore = backend.readCpu();
    const result = await runLoad(load);
    const cpuAfter = readServerCpu();
    const databaseCpuAfter = backend.readCpu();
    const peakMemory = sum(instances.map(({ pid }) => readMemory(pid, 'VmHWM')));
    const listed = { ...scenario, categories: target.pageSize ?? scenario.categories };
    for (const url of urls) await checkCreated(url, listed, warmUp.created + result.created);
    return {
      requestsPerSecond: result.requests / result.seconds,
      p50: result.p50,
      p99: result.p99,
      cpu: perRequest(cpuBefore, cpuAfter, result.requests),
      databaseCpu: perRequest(databaseCpuBefore, databaseCpuAfter, result.requests),
      peakMemory,
    };
  } catch (error) {
    throw new Error(`${target.title}, ${scenario.title}: ${(error as Error).message}`, {
      cause: error,
    });
  } finally {
    await stopServers(instances);
    await backend.drop(name);
  }
}

async function getBackend({ database }: Scenario): Promise<DatabaseBackend> {
  if (database === undefined) return sqlite;
  postgres ??= startPostgres(directory);
  return postgres;
}

/** Adds the values; undefined if any of them is. */
function sum(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === values.length
    ? known.reduce((total, value) => total + value, 0)
    : undefined;
}

function perRequest(
  before: number | undefined,
  after: number | undefined,
  requests: number,
): number | undefined {
  return before === undefined || after === undefined ? undefined : (after - before) / requests;
}

/** Waits until the CPU time stops increasing: the end of a load leaves requests in flight. */
async function waitForIdleCpu(readServerCpu: () => number | undefined): Promise<void> {
  let before: number | undefined;
  let current = readServerCpu();
  do {
    before = current;
    await sleep(current === undefined ? 1000 : 50);
    current = readServerCpu();
  } while (current !== before);
}

/** Measures the startup time, first without and then with an existing database, and the idle memory. */
export async function measureStartup(
  target: Target,
  settings: Settings,
): Promise<StartupMeasurement> {
  const firstStartups: number[] = [];
  const nextStartups: number[] = [];
  let idleMemory: number | undefined;
  for (let startup = 0; startup < settings.startups; startup++) {
    const name = `startup_${++copyCount}`;
    const database = await sqlite.create(name);
    const first = await startServer(target, database);
    firstStartups.push(first.startupMs);
    await first.stop();
    const next = await startServer(target, database);
    nextStartups.push(next.startupMs);
    if (startup === settings.startups - 1) {
      await sleep(settings.idleSeconds * 1000);
      idleMemory = readMemory(next.pid, 'VmRSS');
    }
    await next.stop();
    await sqlite.drop(name);
  }
  return {
    firstStartup: median(firstStartups),
    nextStartup: median(nextStartups),
    idleMemory,
  };
}

/** Computes the median of each value over the rounds; undefined if a round lacks the value. */
export function computeMedians(rounds: readonly Measurement[]): Measurement {
  const medianIfComplete = (
    getValue: (round: Measurement) => number | undefined,
  ): number | undefined => {
    const values = rounds.map(getValue).filter((value) => value !== undefined);
    return values.length === rounds.length ? median(values) : undefined;
  };
  return {
    requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
    p50: median(rounds.map((round) => round.p50)),
    p99: median(rounds.map((round) => round.p99)),
    cpu: medianIfComplete((round) => round.cpu),
    databaseCpu: medianIfComplete((round) => round.databaseCpu),
    peakMemory: medianIfComplete((round) => round.peakMemory),
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}

/** Measures sequential synced 4 KiB writes per second on the disk of the databases. */
export function measureDisk(): number {
  const file = openSync(join(directory, 'disk'), 'w');
  const block = Buffer.alloc(4096);
  const writes = 200;
  const startedAt = performance.now();
  for (let write = 0; write < writes; write++) {
    writeSync(file, block, 0, block.length, write * block.length);
    fdatasyncSync(file);
  }
  const seconds = (performance.now() - startedAt) / 1000;
  closeSync(file);
  return writes / seconds;
}

/** Counts the production dependencies listed by `npm ls --omit=dev`, and their installed size in bytes. */
export function measureDependencies(root: string): { packages: number; bytes: number } {
  // npm exits with an error code if there are extraneous packages; its output is complete nevertheless.
  const { stdout } = spawnSync(
    'npm',
    ['ls', '--omit=dev', '--omit=optional', '--all', '--parseable'],
    {
      cwd: root,
      encoding: 'utf8',
      shell: process.platform === 'win32',
    },
  );
  const [, ...folders] = [...new Set(stdout.trim().split(/\r?\n/))];
  const outermost = folders.filter(
    (folder) => !folders.some((other) => folder.startsWith(other + sep)),
  );
  return {
    packages: folders.length,
    bytes: outermost.reduce((total, folder) => total + getSize(folder), 0),
  };
}

function getSize(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((total, name) => total + getSize(join(path, name)), 0);
}

/** Returns the name of a database with the scenario's categories, seeding it through the target once. */
function getSeededDatabase(
  measured: Target,
  { database, categories }: Scenario,
  backend: DatabaseBackend,
): Promise<string> {
  const target = measured.pageSize === undefined ? measured : TARGETS.service;
  const key = `${target.title}, ${database}, ${categories}`;
  const existing = seededDatabases.get(key);
  if (existing) return existing;
  const name = `seeded_${seededDatabases.size}`;
  const seeding = seedDatabase(target, categories, backend, name);
  seededDatabases.set(key, seeding);
  return seeding;
}

async function seedDatabase(
  target: Target,
  categories: number,
  backend: DatabaseBackend,
  name: string,
): Promise<string> {
  const server = await startServer(target, await backend.create(name));
  try {
    await seed(server.url, categories);
  } finally {
    await server.stop();
  }
  return name;
}

async function seed(url: string, categories: number): Promise<void> {
  let sent = 0;
  const send = async (): Promise<void> => {
    while (sent < categories) {
      const body = JSON.stringify(createSeedCategory(++sent));
      const response = await fetch(url, { method: 'POST', headers: JSON_BODY, body });
      const text = await response.text();
      if (response.status !== 201) {
        throw new Error(`seeding failed with status ${response.status}: ${text}`);
      }
    }
  };
  await Promise.all(Array.from({ length: SEED_CONCURRENCY }, send));
}

function createSeedCategory(number: number): { name: string; description?: string } {
  const name = `category ${String(number).padStart(5, '0')}`;
  return number % 2 === 0 ? { name, description: DESCRIPTION } : { name };
}

/** Computes the length in bytes of the seeded list, which does not depend on the order of the ids. */
function getListLength(categories: number): number {
  const list = Array.from({ length: categories }, (_, index) => ({
    id: index + 1,
    ...createSeedCategory(index + 1),
  }));
  return Buffer.byteLength(JSON.stringify(list));
}

/**
 * Checks that a server lists the seeded categories and rejects invalid and unauthenticated requests.
 * @returns the ETag and the length in bytes of the list
 */
async function checkResponses(
  { target, url }: RunningServer,
  categories: number,
): Promise<{ etag: string | null; bytes: number }> {
  const list = await fetchList(url);
  const { bytes } = list;
  const etag = list.headers.get('etag');
  if (target.pageSize !== undefined) {
    if (list.categories.length !== target.pageSize) throw new Error('the page is not full');
    await checkError(401, await fetch(url));
    return { etag, bytes };
  }
  const names = list.categories.map(({ name, description }) =>
    JSON.stringify({ name, description }),
  );
  const expected = Array.from({ length: categories }, (_, index) =>
    JSON.stringify(createSeedCategory(index + 1)),
  );
  if (names.toSorted().join() !== expected.toSorted().join()) {
    throw new Error('the list does not match the seeded categories');
  }
  if (list.bytes !== getListLength(categories)) {
    throw new Error(`the list has ${list.bytes} bytes instead of ${getListLength(categories)}`);
  }
  listHeaders.set(target.title, [...list.headers.keys()]);

  await checkError(401, await fetch(url));
  await checkError(401, await fetch(url, { headers: { Authorization: `Bearer ${API_KEY}x` } }));
  if (target.listOnly) return { etag, bytes };
  const invalid = [
    {},
    { name: '' },
    { name: ' ' },
    { name: 1 },
    { name: 'x'.repeat(101) },
    { name: 'x', description: 'x'.repeat(1001) },
    { name: 'x', unknown: true },
  ];
  for (const body of invalid.map((value) => JSON.stringify(value))) {
    await checkError(400, await fetch(url, { method: 'POST', headers: JSON_BODY, body }));
  }
  const body = JSON.stringify(NEW_CATEGORY);
  await checkError(
    401,
    await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }),
  );
  return { etag, bytes };
}

async function checkError(status: number, response: Response): Promise<void> {
  const text = await response.text();
  const isExpected =
    response.status === status &&
    Object.keys(JSON.parse(text) as object)
      .toSorted()
      .join() === 'code,message,status';
  if (!isExpected) {
    throw new Error(`expected ${status} with an Error body, but got ${response.status}: ${text}`);
  }
}

/** Checks that the list contains every acknowledged create, and beyond those only requests in flight. */
async function checkCreated(url: string, scenario: Scenario, created: number): Promise<void> {
  const { categories } = await fetchList(url);
  const min = scenario.categories + created;
  // The warm-up and the measurement each end with up to one request in flight per connection.
  const max = min + (scenario.writeInterval === 0 ? 0 : 2 * scenario.connections);
  if (categories.length < min || categories.length > max) {
    throw new Error(`the list has ${categories.length} categories, expected ${min} to ${max}`);
  }
  for (const { name, description } of categories.slice(scenario.categories)) {
    if (name !== NEW_CATEGORY.name || description !== NEW_CATEGORY.description) {
      throw new Error('the list contains a category that was not created');
    }
  }
}

interface Category {
  readonly id: number;
  readonly name: string;
  readonly description?: string;
}

/** Fetches the list and checks that the ids are strictly ascending. */
async function fetchList(
  url: string,
): Promise<{ categories: Category[]; bytes: number; headers: Headers }> {
  const response = await fetch(url, {
    headers: { ...AUTHORIZATION, 'Accept-Encoding': 'identity' },
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) {
    throw new Error(`listing failed with status ${response.status}: ${body.toString()}`);
  }
  const categories = JSON.parse(body.toString()) as Category[];
  // Ids may have gaps: on PostgreSQL an uncommitted insert has already consumed an id.
  categories.forEach(({ id }, index) => {
    const previousId = categories[index - 1]?.id ?? 0;
    if (!(id > previousId)) throw new Error(`category ${id} follows ${previousId} in the list`);
  });
  return { categories, bytes: body.length, headers: response.headers };
}
