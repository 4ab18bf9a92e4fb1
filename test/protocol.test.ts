import { connect as connectTo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ErrorCode } from '../src/platform/errors/error-codes.js';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import {
  type RawResponse,
  RawConnection,
  sendRaw,
  type RawRequest,
  rawRequest,
} from './support/raw-connection.js';

expect.extend(matchers);

const CATEGORY = '{"name":"dog"}';
const JSON_TYPE = 'Content-Type: application/json';

let app: TestApp;
let key: string;
beforeAll(async () => {
  app = await startApp();
  key = `Authorization: Bearer ${app.key}`;
});
afterAll(() => app.stop());

// Whatever was sent, the next client is served.
afterEach(async () => {
  const response = await app.http().get('/v1/categories').set('Authorization', `Bearer ${app.key}`);
  if (response.status !== 200) throw new Error(`The service is not well: ${response.text}`);
});

/** A request for the list, with the key. */
const list = (request: RawRequest = {}): Buffer =>
  rawRequest({ ...request, headers: [key, ...(request.headers ?? [])] });

/** A request that creates a category, with the key; its length is for the caller to say. */
const create = (headers: string[], body: string = CATEGORY): Buffer =>
  rawRequest({ method: 'POST', headers: [key, JSON_TYPE, ...headers], body });

const sized = `Content-Length: ${CATEGORY.length}`;
const chunked = 'Transfer-Encoding: chunked';
const chunks = `e\r\n${CATEGORY}\r\n0\r\n\r\n`;
/** As short as headers can be, so that very many fit into the 16 KiB. */
const emptyHeaders = (count: number): string[] => Array.from({ length: count }, () => 'A:');
/** Not HTTP, and not the beginning of it. */
const GARBAGE = '\x16\x03\x01 no HTTP\r\n\r\n';

async function countCategories(): Promise<number> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return (body as unknown[]).length;
}

const statuses = (answers: readonly RawResponse[]): number[] => answers.map(({ status }) => status);

describe('a request that is not valid HTTP gets the Error body, and its connection ends', () => {
  const CASES: [string, ErrorCode, () => string | Buffer][] = [
    ['words', 'BAD_REQUEST', () => 'hello\r\n\r\n'],
    ['TLS', 'BAD_REQUEST', () => Buffer.from('160301007a010000760303', 'hex')],
    ['the preface of HTTP/2', 'BAD_REQUEST', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown method', 'BAD_REQUEST', () => list({ method: 'FETCH' })],
    ['a method in lower case', 'BAD_REQUEST', () => list({ method: 'get' })],
    ['no target', 'BAD_REQUEST', () => list({ target: '' })],
    ['a target that is no path', 'BAD_REQUEST', () => list({ target: 'v1/categories' })],
    ['a target with a space', 'BAD_REQUEST', () => list({ target: '/v1/ categories' })],
    ['a target with a control character', 'BAD_REQUEST', () => list({ target: '/v1/\x01' })],
    ['a target that is not ASCII', 'BAD_REQUEST', () => list({ target: '/v1/\xff' })],
    ['no version', 'BAD_REQUEST', () => 'GET /v1/categories\r\n\r\n'],
    ['HTTP/0.9', 'BAD_REQUEST', () => list({ version: 'HTTP/0.9' })],
    ['HTTP/1.2', 'BAD_REQUEST', () => list({ version: 'HTTP/1.2' })],
    ['HTTP/2.0', 'BAD_REQUEST', () => list({ version: 'HTTP/2.0' })],
    ['another protocol', 'BAD_REQUEST', () => list({ version: 'ICY/1.1' })],
    ['bare line feeds', 'BAD_REQUEST', () => list().toString().replaceAll('\r\n', '\n')],
    [
      'a bare line feed after a header',
      'BAD_REQUEST',
      () =>
        list({ headers: ['A: 1'] })
          .toString()
          .replace('A: 1\r\n', 'A: 1\n'),
    ],
    ['a bare carriage return', 'BAD_REQUEST', () => list({ headers: ['A: 1\rB: 2'] })],
    ['a NUL in a header', 'BAD_REQUEST', () => list({ headers: ['A: 1\x002'] })],
    ['a space before a colon', 'BAD_REQUEST', () => list({ headers: ['A : 1'] })],
    ['a space in a header name', 'BAD_REQUEST', () => list({ headers: ['A B: 1'] })],
    ['a header without a name', 'BAD_REQUEST', () => list({ headers: [': 1'] })],
    ['a header without a colon', 'BAD_REQUEST', () => list({ headers: ['A'] })],
    ['a folded header', 'BAD_REQUEST', () => list({ headers: ['A: 1\r\n 2'] })],
    ['a long header', 'HEADERS_TOO_LARGE', () => list({ headers: [`A: ${'a'.repeat(20_000)}`] })],
    [
      'a long target',
      'HEADERS_TOO_LARGE',
      () => list({ target: `/v1/categories?${'a'.repeat(20_000)}` }),
    ],
    [
      'a flood of headers',
      'HEADERS_TOO_LARGE',
      () => list({ headers: Array.from({ length: 3_000 }, (_, index) => `A-${index}: 1`) }),
    ],
    ['a hundred and one headers', 'HEADERS_TOO_LARGE', () => list({ headers: emptyHeaders(99) })],
    [
      'more headers than Node keeps, and the key behind them',
      'HEADERS_TOO_LARGE',
      () => rawRequest({ headers: [...emptyHeaders(2_000), key] }),
    ],
    [
      'more headers than Node keeps, and the Host behind them',
      'HEADERS_TOO_LARGE',
      () => list({ host: false, headers: [...emptyHeaders(2_000), 'Host: petstore'] }),
    ],
    [
      'more headers than Node keeps, and the length behind them',
      'HEADERS_TOO_LARGE',
      () => create([...emptyHeaders(2_000), sized]),
    ],
    ['a Host with a space', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: a b'] })],
    ['a Host with a path', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: a/b'] })],
    ['a Host with a user', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: a@b'] })],
    ['a Host not in ASCII', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: \xe4'] })],
    ['a length that is no number', 'BAD_REQUEST', () => create(['Content-Length: x'])],
    ['a negative length', 'BAD_REQUEST', () => create(['Content-Length: -1'])],
    ['a length with a sign', 'BAD_REQUEST', () => create([`Content-Length: +${CATEGORY.length}`])],
    ['a length beyond 64 bits', 'BAD_REQUEST', () => create([`Content-Length: ${'9'.repeat(30)}`])],
    ['a length in hex', 'BAD_REQUEST', () => create(['Content-Length: 0xe'])],
    ['a length with a fraction', 'BAD_REQUEST', () => create([`${sized}.0`])],
    ['a length with an exponent', 'BAD_REQUEST', () => create(['Content-Length: 1e1'])],
    ['a length with a space before it ends', 'BAD_REQUEST', () => create(['Content-Length: 1 4'])],
    [
      'a space between the length and its colon',
      'BAD_REQUEST',
      () => create([`Content-Length : ${CATEGORY.length}`]),
    ],
    ['an empty length', 'BAD_REQUEST', () => create(['Content-Length: '])],
    ['two equal lengths', 'BAD_REQUEST', () => create([sized, sized])],
    ['two different lengths', 'BAD_REQUEST', () => create([sized, 'Content-Length: 2'])],
    ['two lengths in one header', 'BAD_REQUEST', () => create([`${sized}, ${CATEGORY.length}`])],
    ['a length, then chunks', 'BAD_REQUEST', () => create([sized, chunked], chunks)],
    ['chunks, then a length', 'BAD_REQUEST', () => create([chunked, sized], chunks)],
    ['chunks that are not last', 'BAD_REQUEST', () => create([`${chunked}, identity`], chunks)],
    ['chunks twice', 'BAD_REQUEST', () => create([`${chunked}, chunked`], chunks)],
    ['chunks twice, in two headers', 'BAD_REQUEST', () => create([chunked, chunked], chunks)],
    [
      'a transfer coding before the chunks',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: gzip, chunked'], chunks),
    ],
    [
      'a transfer coding before the chunks, in two headers',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: gzip', chunked], chunks),
    ],
    [
      'a transfer coding before the chunks of a GET',
      'NOT_IMPLEMENTED',
      () => list({ headers: ['Transfer-Encoding: identity, chunked'], body: '0\r\n\r\n' }),
    ],
    [
      'an empty transfer coding before the chunks',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: , chunked'], chunks),
    ],
    ['chunks with a parameter', 'BAD_REQUEST', () => create([`${chunked};a=b`], chunks)],
    [
      'a quoted transfer coding',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: "chunked"'], chunks),
    ],
    ['an empty transfer coding', 'BAD_REQUEST', () => create(['Transfer-Encoding: '], chunks)],
    [
      'a space between the transfer coding and its colon',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding : chunked'], chunks),
    ],
    [
      'chunks in HTTP/1.0',
      'BAD_REQUEST',
      () =>
        rawRequest({
          method: 'POST',
          version: 'HTTP/1.0',
          headers: [key, JSON_TYPE, chunked, 'Connection: keep-alive'],
          body: chunks,
        }),
    ],
    ['an unknown transfer coding', 'BAD_REQUEST', () => create(['Transfer-Encoding: x'], chunks)],
    [
      'a transfer coding in disguise',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: xchunked'], chunks),
    ],
    [
      'a transfer coding after a vertical tab',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: \x0bchunked'], chunks),
    ],
    [
      'a chunk whose size is no number',
      'BAD_REQUEST',
      () => create([chunked], `zz\r\n${CATEGORY}`),
    ],
    ...['0xe', '+e', '-e', ' e', 'e ', ''].map((size): [string, ErrorCode, () => Buffer] => [
      `a chunk of the size "${size}"`,
      'BAD_REQUEST',
      () => create([chunked], `${size}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ]),
    [
      'a last chunk that a bare line feed ends',
      'BAD_REQUEST',
      () => create([chunked], `e\r\n${CATEGORY}\r\n0\n\n`),
    ],
    [
      'a chunk that a bare carriage return ends',
      'BAD_REQUEST',
      () => create([chunked], `e\r${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      'a flood of trailers',
      'HEADERS_TOO_LARGE',
      () => create([chunked], `e\r\n${CATEGORY}\r\n0\r\n${'A: 1234567\r\n'.repeat(3_000)}\r\n`),
    ],
    [
      'a chunk longer than its size',
      'BAD_REQUEST',
      () => create([chunked], `2\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      'a chunk size beyond 64 bits',
      'BAD_REQUEST',
      () => create([chunked], `${'f'.repeat(17)}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      'chunks with bare line feeds',
      'BAD_REQUEST',
      () => create([chunked], chunks.replaceAll('\r\n', '\n')),
    ],
    [
      'a chunk with a huge extension',
      'PAYLOAD_TOO_LARGE',
      () => create([chunked], `e;${'x'.repeat(20_000)}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
  ];

  it.each(CASES)('%s: %s', async (_name, code, bytes) => {
    const before = await countCategories();
    const answers = await sendRaw(app.url, bytes());
    expect(statuses(answers)).toHaveLength(1);
    expect(answers[0]).toBeError(code);
    expect(answers[0]?.headers).toMatchObject({ connection: 'close' });
    // Nothing of Node's parser shows.
    expect(answers[0]?.text).not.toMatch(/HPE_|ERR_|Parse Error/);
    expect(await countCategories()).toBe(before);
  });

  it('also where much more of it is on its way', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send('GET / HTTP/1.1\r\n');
    for (let index = 0; index < 2_000; index++)
      connection.send(`A-${index}: ${'a'.repeat(1_000)}\r\n`);
    expect(await connection.nextResponse()).toBeError('HEADERS_TOO_LARGE');
    await connection.closed();
  });
});

describe('the Host header', () => {
  it.each([
    ['missing', { host: false }],
    ['given twice', { headers: ['Host: petstore'] }],
    ['given twice, in another case', { headers: ['hOST: other'] }],
    ['given twice in HTTP/1.0', { version: 'HTTP/1.0', headers: ['Host: other'] }],
    ['missing where the target names one', { host: false, target: 'http://petstore/livez' }],
  ])('is an error where it is %s', async (_name, request) => {
    const connection = await RawConnection.open(app.url);
    const answer = await connection.send(list(request)).nextResponse();
    connection.close();
    expect(answer).toBeError('BAD_REQUEST', /Host/);
  });

  it('is looked at before everything else', async () => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({ host: false, headers: ['Connection: close', 'X-Request-Id: mine'] }),
    );
    expect(answer).toBeError('BAD_REQUEST', /Host/);
    expect(answer?.headers).toMatchObject({ 'x-request-id': 'mine' });
  });
});

it.each(['', 'petstore', 'pet_store.example:8080', '127.0.0.1', '[::1]:80', '%70et'])(
  'a Host may be "%s"',
  async (host) => {
    const answers = await sendRaw(
      app.url,
      list({ host: false, headers: [`Host: ${host}`, 'Connection: close'] }),
    );
    expect(statuses(answers)).toEqual([200]);
  },
);

it('a hundred headers are taken', async () => {
  const answers = await sendRaw(
    app.url,
    list({ headers: [...emptyHeaders(97), 'Connection: close'] }),
  );
  expect(statuses(answers)).toEqual([200]);
});

describe('HTTP/1.0', () => {
  it.each([
    ['without a Host', false],
    ['with a Host', true],
  ])('is answered %s, and its connection ends', async (_name, host) => {
    const answers = await sendRaw(app.url, list({ version: 'HTTP/1.0', host }));
    expect(statuses(answers)).toEqual([200]);
    expect(answers[0]?.headers).toMatchObject({ connection: 'close' });
  });

  it.each(['100-continue', 'tea'])(
    'knows no Expect, and its clients no interim answer: %s',
    async (expectation) => {
      const answers = await sendRaw(
        app.url,
        rawRequest({
          method: 'POST',
          version: 'HTTP/1.0',
          headers: [key, JSON_TYPE, sized, `Expect: ${expectation}`],
          body: CATEGORY,
        }),
      );
      expect(statuses(answers)).toEqual([201]);
    },
  );
});

describe('the Expect header', () => {
  it.each(['tea', '200-ok', '100-continued'])(
    'is refused where it asks for %s',
    async (expectation) => {
      const before = await countCategories();
      const [answer] = await sendRaw(
        app.url,
        create([sized, `Expect: ${expectation}`, 'Connection: close', 'X-Request-Id: mine']),
      );
      expect(answer).toBeError('EXPECTATION_FAILED');
      expect(answer?.headers).toMatchObject({ 'x-request-id': 'mine' });
      expect(await countCategories()).toBe(before);
    },
  );

  it.each(['100-continue', '100-Continue'])('may ask for %s', async (expectation) => {
    const connection = await RawConnection.open(app.url);
    connection.send(create([sized, `Expect: ${expectation}`, 'Connection: close'], ''));
    expect(await connection.nextResponse(1)).toMatchObject({ status: 100 });
    expect(statuses(await connection.send(CATEGORY).closed())).toEqual([100, 201]);
  });
});

const connect = (...headers: string[]): Buffer =>
  rawRequest({ method: 'CONNECT', target: 'example.com:443', headers });

describe('CONNECT', () => {
  it('is not served', async () => {
    const answers = await sendRaw(app.url, connect('X-Request-Id: mine'));
    expect(answers).toHaveLength(1);
    expect(answers[0]).toBeError('METHOD_NOT_ALLOWED');
    expect(answers[0]?.headers).toMatchObject({
      allow: expect.stringContaining('GET') as string,
      connection: 'close',
      'x-request-id': 'mine',
    });
  });

  it('comes after the answers to the requests before it', async () => {
    const answers = await sendRaw(app.url, Buffer.concat([list(), create([sized]), connect()]));
    expect(statuses(answers)).toEqual([200, 201, 405]);
  });

  it('of a client that is gone at once does the service no harm', async () => {
    for (let round = 0; round < 10; round++) {
      const connection = await RawConnection.open(app.url);
      connection.send(Buffer.concat([connect(), Buffer.alloc(10_000 * round, 'x')]));
      await connection.flushed();
      connection.reset();
    }
    expect((await app.http().get('/livez')).status).toBe(200);
  });
});

describe('a client that is gone', () => {
  it.each([
    ['after nonsense', () => Buffer.from(GARBAGE.repeat(1_000))],
    ['after a request', () => list()],
    ['in the middle of its headers', () => list().subarray(0, 30)],
    ['in the middle of its body', () => create(['Content-Length: 1000'])],
    ['in the middle of its chunks', () => create([chunked], `e\r\n${CATEGORY}`)],
  ])('%s does the service no harm', async (_name, bytes) => {
    for (let round = 0; round < 5; round++) {
      const connection = await RawConnection.open(app.url);
      await connection.send(bytes()).flushed();
      connection.reset();
    }
    expect((await app.http().get('/livez')).status).toBe(200);
  });
});

describe('a client that ends its side after the request', () => {
  it.each([
    ['list', () => [list()], [200]],
    ['create', () => [create([sized])], [201]],
    ['create in chunks', () => [create([chunked], chunks)], [201]],
    ['request without a key', () => [rawRequest({})], [401]],
    ['several requests', () => [create([sized]), list(), create([sized])], [201, 200, 201]],
    ['list, and half of the next', () => [list(), list().subarray(0, 30)], [200, 400]],
  ])('gets its answer: %s', async (_name, requests, expected) => {
    const connection = await RawConnection.open(app.url);
    const answers = await connection.send(Buffer.concat(requests())).endWrites().closed();
    expect(statuses(answers)).toEqual(expected);
  });
});

describe('requests in a row on one connection', () => {
  it('are 10,000 at most: the last answer says so, and what follows is not looked at', async () => {
    const before = await countCategories();
    const connection = await RawConnection.open(app.url);
    const requests = rawRequest({ target: '/livez' }).toString().repeat(9_999);
    const answers = await connection
      .send(requests + create([sized]).toString() + create([sized]).toString())
      .closed(15_000);
    expect(answers).toHaveLength(10_000);
    expect(answers.slice(0, -1).every(({ status }) => status === 200)).toBe(true);
    expect(answers.at(-2)?.headers).toMatchObject({ connection: 'keep-alive' });
    expect(answers.at(-1)).toMatchObject({ status: 201, headers: { connection: 'close' } });
    expect(await countCategories()).toBe(before + 1);
  });

  it('are answered in their order', async () => {
    const requests = [
      create([sized]),
      list(),
      rawRequest({ target: '/livez' }),
      rawRequest({ target: '/v1/nope' }),
      rawRequest({}),
      list({ headers: ['Connection: close'] }),
    ];
    const answers = await sendRaw(app.url, Buffer.concat(requests));
    expect(statuses(answers)).toEqual([201, 200, 200, 404, 401, 200]);
  });

  it.each([
    ['a list', () => [list()], [200]],
    ['a create', () => [create([sized])], [201]],
    ['a create in chunks', () => [create([chunked], chunks)], [201]],
    ['a request without a key', () => [rawRequest({})], [401]],
    ['several', () => [list(), create([sized]), rawRequest({ target: '/livez' })], [200, 201, 200]],
  ])('with nonsense at the end: %s is answered first', async (_name, requests, expected) => {
    const answers = await sendRaw(app.url, Buffer.concat([...requests(), Buffer.from(GARBAGE)]));
    expect(statuses(answers)).toEqual([...expected, 400]);
    expect(answers.at(-1)).toBeError('BAD_REQUEST');
  });

  it('with nonsense in the body of the last: those before it are answered first', async () => {
    const before = await countCategories();
    const broken = create([chunked], 'zz\r\n');
    const answers = await sendRaw(
      app.url,
      Buffer.concat([create([sized]), list(), create([sized]), broken]),
    );
    expect(statuses(answers)).toEqual([201, 200, 201, 400]);
    expect(await countCategories()).toBe(before + 2);
  });

  it('with nonsense that comes later', async () => {
    const connection = await RawConnection.open(app.url);
    expect((await connection.send(list()).nextResponse()).status).toBe(200);
    expect(statuses(await connection.send(GARBAGE).closed())).toEqual([200, 400]);
  });

  it('end with one that is refused: what follows is not done', async () => {
    const before = await countCategories();
    const answers = await sendRaw(
      app.url,
      Buffer.concat([list({ headers: ['Host: petstore'] }), create([sized])]),
    );
    expect(statuses(answers)).toEqual([400]);
    expect(await countCategories()).toBe(before);
  });

  it('end without a word about nonsense after the last one', async () => {
    const last = rawRequest({ headers: ['Connection: close'] });
    const answers = await sendRaw(app.url, Buffer.concat([last, Buffer.from(GARBAGE)]));
    expect(statuses(answers)).toEqual([401]);
  });

  it('end where a client asks for the end', async () => {
    const answers = await sendRaw(
      app.url,
      Buffer.concat([list({ headers: ['Connection: close'] }), list()]),
    );
    expect(statuses(answers)).toEqual([200]);
  });

  it('may have empty lines between them', async () => {
    const answers = await sendRaw(
      app.url,
      Buffer.concat([
        Buffer.from('\r\n'),
        list(),
        Buffer.from('\r\n\r\n'),
        list({ headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(answers)).toEqual([200, 200]);
  });
});

describe('a body and its length', () => {
  it('that differ, the body being longer: the rest is another request, and no HTTP', async () => {
    const before = await countCategories();
    const answers = await sendRaw(app.url, create([sized], `${CATEGORY}{"name":"cat"}`));
    expect(statuses(answers)).toEqual([201, 400]);
    expect(await countCategories()).toBe(before + 1);
  });

  it('that differ, the body being shorter: nothing is stored', async () => {
    const before = await countCategories();
    const connection = await RawConnection.open(app.url);
    const answers = await connection
      .send(create(['Content-Length: 100']))
      .endWrites()
      .closed();
    expect(answers).toHaveLength(1);
    expect(answers[0]).toBeError('BAD_REQUEST');
    expect(await countCategories()).toBe(before);
  });

  it('that swallow the next request: it is the body, and no request', async () => {
    const smuggled = list().toString();
    const answers = await sendRaw(
      app.url,
      Buffer.concat([
        create([`Content-Length: ${CATEGORY.length + smuggled.length}`], CATEGORY + smuggled),
        rawRequest({ target: '/livez', headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(answers)).toEqual([400, 200]);
    expect(answers[0]).toBeError('MALFORMED_JSON');
  });

  it('of a GET are taken, and not looked at', async () => {
    const answers = await sendRaw(
      app.url,
      Buffer.concat([
        list({ headers: ['Content-Length: 8', 'Content-Type: text/plain'], body: '{"name":' }),
        list({ headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(answers)).toEqual([200, 200]);
  });

  it('in chunks, with extensions and trailers, are taken', async () => {
    const body = `7;a=b\r\n{"name"\r\n7;c\r\n:"dog"}\r\n0\r\nX-Trailer: 1\r\n\r\n`;
    const answers = await sendRaw(app.url, create([chunked, 'Connection: close'], body));
    expect(statuses(answers)).toEqual([201]);
  });

  it('in chunks give nothing to the head of the request by their trailers', async () => {
    const trailers = `e\r\n${CATEGORY}\r\n0\r\n${key}\r\n\r\n`;
    const answers = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [JSON_TYPE, chunked, 'Connection: close'],
        body: trailers,
      }),
    );
    expect(statuses(answers)).toEqual([401]);
  });

  it.each([
    ['ends', (connection: RawConnection) => connection.endWrites()],
    ['goes on as nonsense', (connection: RawConnection) => connection.send('zz\r\nzz\r\n')],
  ])('get one answer where the key is missing, also where the body then %s', async (_name, go) => {
    const connection = await RawConnection.open(app.url);
    connection.send(rawRequest({ method: 'POST', headers: [JSON_TYPE, chunked] }));
    expect(await connection.nextResponse()).toBeError('UNAUTHORIZED');
    expect(statuses(await go(connection).closed())).toEqual([401]);
  });

  it('keep the request id of the client where the body is no HTTP', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(create([chunked, 'X-Request-Id: mine'], '2\r\n{"'));
    const answers = await connection.send('\r\nzz\r\n').closed();
    expect(answers).toHaveLength(1);
    expect(answers[0]).toBeError('BAD_REQUEST');
    expect(answers[0]?.headers).toMatchObject({ 'x-request-id': 'mine' });
  });
});

describe('the target of a request', () => {
  const closing = { headers: ['Connection: close'] };

  it.each(['http://petstore/v1/categories', 'http://other:8080/v1/categories?x=1'])(
    'may be absolute: %s',
    async (target) => {
      expect(statuses(await sendRaw(app.url, list({ target, ...closing })))).toEqual([200]);
    },
  );

  it.each([
    'http://',
    'http:///',
    'http://petstore',
    'http://[/v1/categories',
    'http://pet store/',
    '//petstore/v1/categories',
    '/\\petstore',
    '/v1/categories%00',
    '/?a[b]=c&a[__proto__]=d',
    '/#x',
    '/;x',
    '*',
  ])('may be nonsense: %s', async (target) => {
    const answers = await sendRaw(app.url, list({ target, ...closing }));
    expect(answers).toHaveLength(1);
    expect([400, 404]).toContain(answers[0]?.status);
    expect(answers[0]).toBeError(answers[0]?.status === 400 ? 'BAD_REQUEST' : 'NOT_FOUND');
  });

  it('may be * for OPTIONS, and is nothing that is served', async () => {
    const answers = await sendRaw(
      app.url,
      rawRequest({ method: 'OPTIONS', target: '*', ...closing }),
    );
    expect(answers[0]).toBeError('NOT_FOUND');
  });
});

describe('a method', () => {
  it.each(['OPTIONS', 'TRACE', 'PUT', 'PROPFIND'])(
    '%s is not served, and says nothing of the request',
    async (method) => {
      const answers = await sendRaw(
        app.url,
        list({ method, headers: ['X-Secret: swordfish', 'Connection: close'] }),
      );
      expect(answers).toHaveLength(1);
      expect(answers[0]).toBeError('METHOD_NOT_ALLOWED');
      expect(answers[0]?.headers).toMatchObject({ allow: 'GET, HEAD, POST' });
      expect(answers[0]?.text).not.toContain('swordfish');
      expect(answers[0]?.text).not.toContain(app.key);
    },
  );
});

describe('the Upgrade header', () => {
  it.each([
    ['websocket', ['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13']],
    ['h2c', ['HTTP2-Settings: AAMAAABkAAQAAP__']],
    ['TLS/1.3', []],
  ])('is ignored: %s', async (protocol, headers) => {
    const connection = await RawConnection.open(app.url);
    const request = list({
      headers: [`Upgrade: ${protocol}`, 'Connection: Upgrade', ...headers],
    });
    expect((await connection.send(request).nextResponse(1)).status).toBe(200);
    // The connection still speaks HTTP/1.1.
    expect((await connection.send(list()).nextResponse(2)).status).toBe(200);
    connection.close();
  });

  it('is no way around the key', async () => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({ headers: ['Upgrade: websocket', 'Connection: Upgrade, close'] }),
    );
    expect(answer).toBeError('UNAUTHORIZED');
  });
});

describe('a client that is too slow', () => {
  /** Milliseconds in which the service must have given up, with room for a busy machine. */
  const HEADERS = 5_000 + 3_000;
  const BODY = 10_000 + 3_000;

  const CASES: {
    name: string;
    bytes: () => string | Buffer;
    /** Sent again and again, so that the connection is never quiet. */
    drip?: string;
    within: number;
    answers: number[];
  }[] = [
    { name: 'sends nothing', bytes: () => '', within: HEADERS, answers: [408] },
    { name: 'sends half a line', bytes: () => 'GET /v1', within: HEADERS, answers: [408] },
    {
      name: 'never ends its headers',
      bytes: () => list().subarray(0, -2),
      within: HEADERS,
      answers: [408],
    },
    {
      name: 'sends a header at a time',
      bytes: () => list().subarray(0, -2),
      drip: 'A: 1\r\n',
      within: HEADERS,
      answers: [408],
    },
    {
      name: 'never ends its second request',
      bytes: () => Buffer.concat([list(), list().subarray(0, -2)]),
      within: HEADERS,
      answers: [200, 408],
    },
    {
      name: 'never sends its body',
      bytes: () => create(['Content-Length: 1000', 'X-Request-Id: slow'], ''),
      within: BODY,
      answers: [408],
    },
    {
      name: 'sends a byte of its body at a time',
      bytes: () => create(['Content-Length: 1000', 'X-Request-Id: slow'], '{'),
      drip: ' ',
      within: BODY,
      answers: [408],
    },
    {
      name: 'never sends its last chunk',
      bytes: () => create([chunked, 'X-Request-Id: slow'], `e\r\n${CATEGORY}\r\n`),
      within: BODY,
      answers: [408],
    },
    {
      name: 'never sends the body that it was asked for',
      bytes: () =>
        create(['Content-Length: 1000', 'Expect: 100-continue', 'X-Request-Id: slow'], ''),
      within: BODY,
      answers: [100, 408],
    },
    // These have their answer already: a second one would be taken for that of the next request.
    {
      name: 'never sends the body of a request without a key',
      bytes: () => rawRequest({ method: 'POST', headers: [JSON_TYPE, 'Content-Length: 1000'] }),
      within: BODY,
      answers: [401],
    },
    {
      name: 'never sends the body of a GET',
      bytes: () => list({ headers: ['Content-Length: 1000'] }),
      within: BODY,
      answers: [200],
    },
  ];

  /** Connections of each case: 220 in all. */
  const CONNECTIONS = 20;

  it('is told so, and the connection ends, while others are served', async () => {
    const before = await countCategories();
    const clients = CASES.flatMap((kind) => Array.from({ length: CONNECTIONS }, () => kind));
    const outcomes = clients.map(async ({ name, bytes, drip, within }) => {
      const connection = await RawConnection.open(app.url);
      connection.send(bytes());
      const timer = drip === undefined ? undefined : setInterval(() => connection.send(drip), 500);
      const answers = await connection.closed(within).catch((error: unknown) => error);
      clearInterval(timer);
      connection.close();
      return { name, answers };
    });
    const over = new AbortController();
    const ended = Promise.all(outcomes).finally(() => over.abort());
    const others: number[][] = [];
    while (!over.signal.aborted) {
      const request = [create([sized]), list({ headers: ['Connection: close'] })];
      others.push(statuses(await sendRaw(app.url, Buffer.concat(request))));
      await delay(20);
    }
    expect(others.length).toBeGreaterThan(10);
    for (const answered of others) expect(answered).toEqual([201, 200]);
    const seen = (await ended).map(({ name, answers }) => ({
      name,
      answers: Array.isArray(answers) ? statuses(answers as RawResponse[]) : answers,
      last: Array.isArray(answers) ? (answers as RawResponse[]).at(-1) : undefined,
    }));
    expect(seen.map(({ name, answers }) => ({ name, answers }))).toEqual(
      clients.map(({ name, answers }) => ({ name, answers })),
    );
    for (const { last } of seen.filter(({ answers }) => (answers as number[]).at(-1) === 408)) {
      expect(last).toBeError('REQUEST_TIMEOUT');
      expect(last?.headers).toMatchObject({ connection: 'close' });
    }
    const ids = seen.flatMap(({ name, last }) =>
      /body that|its body|chunk/.test(name) ? [last?.headers['x-request-id']] : [],
    );
    expect(ids).toEqual(Array.from({ length: 4 * CONNECTIONS }, () => 'slow'));
    expect(await countCategories()).toBe(before + others.length);
  });
});

it('a client that takes nothing of its answers is cut off', async () => {
  expect(app.server.timeout).toBe(30_000);
  // Less, so that the test is short.
  app.server.timeout = 1_000;
  const socket = connectTo(Number(new URL(app.url).port), '127.0.0.1').pause();
  try {
    // It is reset while it still sends.
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    // A path in the message of a 404 makes an answer long: more than the buffers of a connection hold.
    const request = rawRequest({ target: `/${'a'.repeat(10_000)}` });
    for (let index = 0; index < 3_000; index++) socket.write(request);
    await closed;
  } finally {
    app.server.timeout = 30_000;
    socket.destroy();
  }
});
