import autocannon from 'autocannon';
import type { Load, LoadResult } from './load.js';

// The load generator if wrk is not installed. Sends one load, checks every response in the same way as
// load.lua, and prints a LoadResult as JSON.

const load = JSON.parse(process.argv[2] ?? '') as Load;
const lengths = new Set([load.listLength]);
let longest = load.listLength;
let lastId = load.lastId;
let checked = 0;
let created = 0;
let failed = 0;
let firstFailure = '';

function isListLength(length: number): boolean {
  while (load.writeInterval > 0 && longest < length) {
    longest += load.createdLength + String(++lastId).length + 1;
    lengths.add(longest);
  }
  return lengths.has(length);
}

function isExpectedCreate(status: number, body: string): boolean {
  if (status !== 201) return false;
  const id = /"id":(\d+)/.exec(body)?.[1];
  return id !== undefined && Buffer.byteLength(body) === load.createdLength + id.length;
}

function record(isExpected: boolean, status: number, body: string): void {
  checked++;
  if (isExpected) return;
  failed++;
  firstFailure ||= `status ${status} with a body of ${Buffer.byteLength(body)} bytes`;
}

const authorization = `Bearer ${load.key}`;
const list: autocannon.Request = {
  method: 'GET',
  headers: load.etag === '' ? { authorization } : { authorization, 'if-none-match': load.etag },
  onResponse: (status, body) => {
    record(status === load.listStatus && isListLength(Buffer.byteLength(body)), status, body);
  },
};
let sentCreates = 0;
const create: autocannon.Request = {
  method: 'POST',
  headers: { authorization, 'content-type': 'application/json' },
  ...(load.idempotencyKey !== '' && {
    setupRequest: (request) => ({
      ...request,
      headers: { ...request.headers, 'idempotency-key': `${load.idempotencyKey}${++sentCreates}` },
    }),
  }),
  body: load.createBody,
  onResponse: (status, body) => {
    const isExpected = isExpectedCreate(status, body);
    if (isExpected) created++;
    record(isExpected, status, body);
  },
};

const latencies: number[] = [];
let droppedConnections = 0;
let endedAt = 0;

/**
 * Records exact latencies, which autocannon rounds to milliseconds, and dropped connections, after which
 * it reconnects silently.
 */
function instrument(client: NodeJS.EventEmitter): void {
  let isWaiting = false;
  client.on('request', () => {
    if (isWaiting) droppedConnections++;
    isWaiting = true;
  });
  client.on('response', (_status: number, _bytes: number, milliseconds: number) => {
    isWaiting = false;
    latencies.push(milliseconds);
    endedAt = performance.now();
  });
}

const lists = Array.from({ length: Math.max(0, load.writeInterval - 1) }, () => list);
const startedAt = performance.now();
const results = await Promise.all(
  load.urls.map((url) =>
    autocannon({
      url,
      connections: load.connections / load.urls.length,
      timeout: 60,
      ...(load.requests > 0
        ? { amount: Math.ceil(load.requests / load.urls.length) }
        : { duration: load.durationSeconds }),
      requests: load.writeInterval === 0 ? [list] : [...lists, create],
      setupClient: instrument,
    }),
  ),
);
const sum = (getValue: (result: autocannon.Result) => number): number =>
  results.reduce((total, result) => total + getValue(result), 0);
const sorted = latencies.toSorted((a, b) => a - b);
const percentile = (fraction: number): number =>
  sorted[Math.ceil(sorted.length * fraction) - 1] ?? NaN;
const loadResult: LoadResult = {
  requests: sum(({ requests }) => requests.total),
  checked,
  seconds: (endedAt - startedAt) / 1000,
  p50: percentile(0.5),
  p99: percentile(0.99),
  created,
  failed,
  firstFailure,
  socketErrors: sum(({ errors, timeouts }) => errors + timeouts) + droppedConnections,
};
console.log(JSON.stringify(loadResult));
