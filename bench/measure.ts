import { spawnSync } from 'node:child_process';
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
import { type Databases, sqliteFiles } from './databases.js';
import { type Generator, type Load, runLoad } from './load.js';
import { startPostgres } from './postgres.js';
import {
  API_KEY,
  type RunningServer,
  type Target,
  readCpu,
  readMemory,
  startServer,
  startServers,
  stopServers,
} from './targets.js';
import type { Scenario } from './scenarios.js';

/** One server at one work; CPU time and memory are sums over its instances. */
export interface Measurement {
  readonly requestsPerSecond: number;
  /** Latency in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time of the server a request, user and system, in microseconds; Linux only. */
  readonly cpu: number | undefined;
  /** The same of the database's own processes; undefined with SQLite, which has none. */
  readonly databaseCpu: number | undefined;
  /** The most memory that the server held, in bytes; Linux only. */
  readonly peakMemory: number | undefined;
}

/** How long things are measured. */
export interface Settings {
  readonly generator: Generator;
  readonly rounds: number;
  /** Seconds of load before it is measured, for each instance, and while it is. */
  readonly warmUp: number;
  readonly window: number;
  /** Work that ends after a number of answers ends after this part of them. */
  readonly requestsScale: number;
  /** Starts of each server on a database that is there already. */
  readonly starts: number;
  /** Seconds without a request before the idle memory is read. */
  readonly idle: number;
}

/** How long a server takes to start, and what it holds when nothing happens. */
export interface StartMeasurement {
  /** Milliseconds from its start to the first list answered, without a database and with one. */
  readonly firstStart: number;
  readonly nextStart: number;
  /** Bytes; Linux only. */
  readonly idleMemory: number | undefined;
}

const DESCRIPTION = 'Seeded before the load starts, so that every list is alike.';
const NEW_CATEGORY = { name: 'category created under load', description: DESCRIPTION };
const AUTHORIZATION = { Authorization: `Bearer ${API_KEY}` };
const JSON_BODY = { ...AUTHORIZATION, 'Content-Type': 'application/json' };
const SEED_CONCURRENCY = 64;
/** Work that ends after a number of answers ends after this many seconds all the same. */
const LONGEST_WINDOW = 30;

/** Where databases are made; on the disk of the project, because the temporary folder may be in memory. */
export const directory = mkdtempSync(
  join(import.meta.dirname, '..', '..', 'node_modules', '.bench-'),
);
// Again where a database that is being ended has just made another file.
process.on('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }));

const sqlite = sqliteFiles(directory);
let postgres: Promise<Databases> | undefined;
/** The databases that were seeded, by their content; each is copied for every measurement. */
const seeded = new Map<string, Promise<string>>();
let copies = 0;

/** The kinds of databases that were used. */
export async function usedDatabases(): Promise<Databases[]> {
  return postgres === undefined ? [sqlite] : [sqlite, await postgres];
}

/** The header names of each server's list, by its title. */
export const listHeaders = new Map<string, readonly string[]>();

/**
 * Measures one server at one work, in fresh processes on a fresh copy of the seeded database.
 * @throws Error when the server answered wrongly, before, during or after the load
 */
export async function measure(
  server: Target,
  work: Scenario,
  { generator, warmUp, window, requestsScale }: Settings,
): Promise<Measurement> {
  const databases = await databasesFor(work);
  const name = `copy_${++copies}`;
  const database = await databases.create(
    name,
    server.listOnly ? undefined : await seededDatabase(server, work, databases),
  );
  const instances = await startServers(server, database, work.instances ?? 1);
  const urls = instances.map(({ url }) => url);
  const readServerCpu = (): number | undefined => total(instances.map(({ pid }) => readCpu(pid)));
  try {
    if (server.listOnly) await Promise.all(urls.map((url) => seed(url, work.categories)));
    const etags = await Promise.all(
      instances.map((instance) => checkAnswers(instance, work.categories)),
    );
    const etag = etags[0] ?? null;
    if (work.conditional && etag === null) throw new Error('the list has no ETag');
    const requests = Math.round((work.requests ?? 0) * requestsScale);
    const load: Load = {
      urls,
      key: API_KEY,
      connections: work.connections,
      seconds: work.requests === undefined ? window : LONGEST_WINDOW,
      requests,
      createEvery: work.writeInterval,
      etag: work.conditional ? (etag ?? '') : '',
      createBody: JSON.stringify(NEW_CATEGORY),
      listStatus: work.conditional ? 304 : 200,
      listLength: work.conditional ? 0 : listLength(work.categories),
      createdLength: JSON.stringify({ id: 0, ...NEW_CATEGORY }).length - 1,
      lastId: work.categories,
    };
    const warm = await runLoad(generator, {
      ...load,
      // Instances share a core: each gets as much of it as it would get alone.
      seconds: work.requests === undefined ? warmUp * instances.length : LONGEST_WINDOW,
      requests: Math.round(requests / 2),
    });
    await settle(readServerCpu);
    const cpuBefore = readServerCpu();
    const databaseCpuBefore = databases.readCpu();
    const result = await runLoad(generator, load);
    const cpuAfter = readServerCpu();
    const databaseCpuAfter = databases.readCpu();
    const peakMemory = total(instances.map(({ pid }) => readMemory(pid, 'VmHWM')));
    for (const url of urls) await checkCreated(url, work, warm.created + result.created);
    return {
      requestsPerSecond: result.requests / result.seconds,
      p50: result.p50,
      p99: result.p99,
      cpu: perRequest(cpuBefore, cpuAfter, result.requests),
      databaseCpu: perRequest(databaseCpuBefore, databaseCpuAfter, result.requests),
      peakMemory,
    };
  } catch (error) {
    throw new Error(`${server.title}, ${work.title}: ${(error as Error).message}`, {
      cause: error,
    });
  } finally {
    await stopServers(instances);
    await databases.drop(name);
  }
}

async function databasesFor({ database }: Scenario): Promise<Databases> {
  if (database === undefined) return sqlite;
  postgres ??= startPostgres(directory);
  return postgres;
}

/** The sum, where every value is known. */
function total(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === values.length ? known.reduce((sum, value) => sum + value, 0) : undefined;
}

function perRequest(
  before: number | undefined,
  after: number | undefined,
  requests: number,
): number | undefined {
  return before === undefined || after === undefined ? undefined : (after - before) / requests;
}

/** Waits until a server is through with the requests that the end of a load left under way. */
async function settle(readServerCpu: () => number | undefined): Promise<void> {
  let before: number | undefined;
  let now = readServerCpu();
  do {
    before = now;
    await sleep(now === undefined ? 1000 : 50);
    now = readServerCpu();
  } while (now !== before);
}

/** Measures how fast a server starts, first without a database and then with it, and its idle memory. */
export async function measureStart(server: Target, settings: Settings): Promise<StartMeasurement> {
  const firstStarts: number[] = [];
  const nextStarts: number[] = [];
  let idleMemory: number | undefined;
  for (let start = 0; start < settings.starts; start++) {
    const name = `start_${++copies}`;
    const database = await sqlite.create(name);
    const first = await startServer(server, database);
    firstStarts.push(first.startMilliseconds);
    await first.stop();
    const next = await startServer(server, database);
    nextStarts.push(next.startMilliseconds);
    if (start === settings.starts - 1) {
      await sleep(settings.idle * 1000);
      idleMemory = readMemory(next.pid, 'VmRSS');
    }
    await next.stop();
    await sqlite.drop(name);
  }
  return { firstStart: median(firstStarts), nextStart: median(nextStarts), idleMemory };
}

/** The median of each figure of several rounds; undefined where a round lacks it. */
export function medians(rounds: readonly Measurement[]): Measurement {
  const of = (figure: (round: Measurement) => number | undefined): number | undefined => {
    const values = rounds.map(figure).filter((value) => value !== undefined);
    return values.length === rounds.length ? median(values) : undefined;
  };
  return {
    requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
    p50: median(rounds.map((round) => round.p50)),
    p99: median(rounds.map((round) => round.p99)),
    cpu: of((round) => round.cpu),
    databaseCpu: of((round) => round.databaseCpu),
    peakMemory: of((round) => round.peakMemory),
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}

/** How many 4 KiB writes a second reach the disk of the databases one after the other. */
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

/** What is installed for production: the packages that `npm ls --omit=dev` names, and the bytes of their files. */
export function measureDependencies(root: string): { packages: number; bytes: number } {
  // npm complains with its exit code about packages that nobody needs; its list stands all the same.
  const { stdout } = spawnSync('npm', ['ls', '--omit=dev', '--all', '--parseable'], {
    cwd: root,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  const [, ...folders] = [...new Set(stdout.trim().split(/\r?\n/))];
  const outermost = folders.filter(
    (folder) => !folders.some((other) => folder.startsWith(other + sep)),
  );
  return {
    packages: folders.length,
    bytes: outermost.reduce((sum, folder) => sum + sizeOf(folder), 0),
  };
}

function sizeOf(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

/** The name of a database that holds the work's categories, seeded through the server once. */
function seededDatabase(
  server: Target,
  { database, categories }: Scenario,
  databases: Databases,
): Promise<string> {
  const key = `${server.title}, ${database}, ${categories}`;
  const known = seeded.get(key);
  if (known) return known;
  const made = seedDatabase(server, categories, databases, `seeded_${seeded.size}`);
  seeded.set(key, made);
  return made;
}

async function seedDatabase(
  server: Target,
  categories: number,
  databases: Databases,
  name: string,
): Promise<string> {
  const running = await startServer(server, await databases.create(name));
  try {
    await seed(running.url, categories);
  } finally {
    await running.stop();
  }
  return name;
}

async function seed(url: string, categories: number): Promise<void> {
  let sent = 0;
  const send = async (): Promise<void> => {
    while (sent < categories) {
      const body = JSON.stringify(seedCategory(++sent));
      const response = await fetch(url, { method: 'POST', headers: JSON_BODY, body });
      const answer = await response.text();
      if (response.status !== 201) {
        throw new Error(`a seeding create answered ${response.status}: ${answer}`);
      }
    }
  };
  await Promise.all(Array.from({ length: SEED_CONCURRENCY }, send));
}

function seedCategory(number: number): { name: string; description?: string } {
  const name = `category ${String(number).padStart(5, '0')}`;
  return number % 2 === 0 ? { name, description: DESCRIPTION } : { name };
}

/** The bytes of the list of seeded categories; which of them has which id does not change it. */
function listLength(categories: number): number {
  const list = Array.from({ length: categories }, (_, index) => ({
    id: index + 1,
    ...seedCategory(index + 1),
  }));
  return Buffer.byteLength(JSON.stringify(list));
}

/**
 * Checks that a server lists what was seeded and refuses what it must refuse.
 * @returns the ETag of the list
 */
async function checkAnswers(
  { server, url }: RunningServer,
  categories: number,
): Promise<string | null> {
  const list = await fetchList(url);
  const names = list.categories.map(({ name, description }) =>
    JSON.stringify({ name, description }),
  );
  const expected = Array.from({ length: categories }, (_, index) =>
    JSON.stringify(seedCategory(index + 1)),
  );
  if (names.toSorted().join() !== expected.toSorted().join()) {
    throw new Error('the list is not what was seeded');
  }
  if (list.bytes !== listLength(categories)) {
    throw new Error(`the list has ${list.bytes} bytes instead of ${listLength(categories)}`);
  }
  listHeaders.set(server.title, [...list.headers.keys()]);

  await checkError(401, await fetch(url));
  await checkError(401, await fetch(url, { headers: { Authorization: `Bearer ${API_KEY}x` } }));
  if (server.listOnly) return list.headers.get('etag');
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
  return list.headers.get('etag');
}

async function checkError(status: number, response: Response): Promise<void> {
  const text = await response.text();
  const isRight =
    response.status === status &&
    Object.keys(JSON.parse(text) as object)
      .toSorted()
      .join() === 'code,message,status';
  if (!isRight) {
    throw new Error(`${status} and an Error body expected, but got ${response.status}: ${text}`);
  }
}

/** Checks that the list has grown by the creates that were answered, and by those still under way at most. */
async function checkCreated(url: string, work: Scenario, created: number): Promise<void> {
  const { categories } = await fetchList(url);
  const atLeast = work.categories + created;
  // A run that ends cuts the requests that are under way: one a connection, in the warm-up and after it.
  const atMost = atLeast + (work.writeInterval === 0 ? 0 : 2 * work.connections);
  if (categories.length < atLeast || categories.length > atMost) {
    throw new Error(`the list has ${categories.length} categories, not ${atLeast} to ${atMost}`);
  }
  for (const { name, description } of categories.slice(work.categories)) {
    if (name !== NEW_CATEGORY.name || description !== NEW_CATEGORY.description) {
      throw new Error('the list holds a category that nobody created');
    }
  }
}

interface Category {
  readonly id: number;
  readonly name: string;
  readonly description?: string;
}

/** Fetches the list, and checks that it is a list of categories in the order of their ids, each once. */
async function fetchList(
  url: string,
): Promise<{ categories: Category[]; bytes: number; headers: Headers }> {
  const response = await fetch(url, {
    headers: { ...AUTHORIZATION, 'Accept-Encoding': 'identity' },
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) {
    throw new Error(`the list answered ${response.status}: ${body.toString()}`);
  }
  const categories = JSON.parse(body.toString()) as Category[];
  // Ids may have gaps: on PostgreSQL a create that is under way holds one that nobody sees yet.
  categories.forEach(({ id }, index) => {
    const before = categories[index - 1]?.id ?? 0;
    if (!(id > before)) throw new Error(`category ${id} comes after ${before} in the list`);
  });
  return { categories, bytes: body.length, headers: response.headers };
}
