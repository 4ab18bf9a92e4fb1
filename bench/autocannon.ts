import autocannon from 'autocannon';
import type { Load, LoadResult } from './load.js';

// The load generator where wrk is not installed: a process that sends one load, checks every
// answer as load.lua does, and writes a LoadResult as JSON.

const load = JSON.parse(process.argv[2] ?? '') as Load;
const lengths = new Set([load.listLength]);
let longest = load.listLength;
let lastId = load.lastId;
let checked = 0;
let created = 0;
let wrong = 0;
let firstWrong = '';

function isListLength(length: number): boolean {
  while (load.createEvery > 0 && longest < length) {
    longest += load.createdLength + String(++lastId).length + 1;
    lengths.add(longest);
  }
  return lengths.has(length);
}

function isCreated(body: string): boolean {
  const id = /"id":(\d+)/.exec(body)?.[1];
  return id !== undefined && Buffer.byteLength(body) === load.createdLength + id.length;
}

function record(isRight: boolean, status: number, body: string): void {
  checked++;
  if (isRight) return;
  wrong++;
  firstWrong ||= `status ${status} with a body of ${Buffer.byteLength(body)} bytes`;
}

const authorization = `Bearer ${load.key}`;
const list: autocannon.Request = {
  method: 'GET',
  headers: load.etag === '' ? { authorization } : { authorization, 'if-none-match': load.etag },
  onResponse: (status, body) => {
    record(status === load.listStatus && isListLength(Buffer.byteLength(body)), status, body);
  },
};
const create: autocannon.Request = {
  method: 'POST',
  headers: { authorization, 'content-type': 'application/json' },
  body: load.createBody,
  onResponse: (status, body) => {
    const isRight = status === 201 && isCreated(body);
    if (isRight) created++;
    record(isRight, status, body);
  },
};

const latencies: number[] = [];
let cut = 0;
let endedAt = 0;

/** autocannon connects again without a word when a connection is cut, and rounds latencies to milliseconds. */
function watch(client: NodeJS.EventEmitter): void {
  let isWaiting = false;
  client.on('request', () => {
    if (isWaiting) cut++;
    isWaiting = true;
  });
  client.on('response', (_status: number, _bytes: number, milliseconds: number) => {
    isWaiting = false;
    latencies.push(milliseconds);
    endedAt = performance.now();
  });
}

const lists = Array.from({ length: Math.max(0, load.createEvery - 1) }, () => list);
const startedAt = performance.now();
const results = await Promise.all(
  load.urls.map((url) =>
    autocannon({
      url,
      connections: load.connections / load.urls.length,
      timeout: 60,
      ...(load.requests > 0
        ? { amount: Math.ceil(load.requests / load.urls.length) }
        : { duration: load.seconds }),
      requests: load.createEvery === 0 ? [list] : [...lists, create],
      setupClient: watch,
    }),
  ),
);
const total = (figure: (result: autocannon.Result) => number): number =>
  results.reduce((sum, result) => sum + figure(result), 0);
const sorted = latencies.toSorted((a, b) => a - b);
const percentile = (part: number): number => sorted[Math.ceil(sorted.length * part) - 1] ?? NaN;
const answer: LoadResult = {
  requests: total(({ requests }) => requests.total),
  checked,
  seconds: (endedAt - startedAt) / 1000,
  p50: percentile(0.5),
  p99: percentile(0.99),
  created,
  wrong,
  firstWrong,
  socketErrors: total(({ errors, timeouts }) => errors + timeouts) + cut,
};
console.log(JSON.stringify(answer));
