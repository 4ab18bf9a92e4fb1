import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect as connectTo, type Socket } from 'node:net';
import { ApiKeysService } from '../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../src/platform/config/config.js';
import type { ErrorCode } from '../src/platform/errors/error-codes.js';
import type { Connection } from '../src/platform/http/server/connections.js';
import { HttpAdapter } from '../src/platform/http/server/http.adapter.js';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import {
  type RawResponse,
  RawConnection,
  sendRaw,
  type RawRequest,
  rawRequest,
} from './support/raw-connection.js';
import { waitFor } from './support/wait.js';

const { jest } = import.meta;
expect.extend(matchers);

const CATEGORY = '{"name":"dog"}';
const JSON_TYPE = 'Content-Type: application/json';

/** No request times out, however busy the machine is; the tests of the timeouts shorten them. */
const TIMEOUTS = { headers: 60_000, request: 60_000, checkInterval: 100, socket: 60_000 };

let app: TestApp;
let key: string;
beforeAll(async () => {
  app = await startApp({ adapter: new HttpAdapter(loadConfig({}), TIMEOUTS) });
  key = `Authorization: Bearer ${app.key}`;
});
afterAll(() => app.stop());

// The service must keep serving other clients after every test.
afterEach(async () => {
  const { status, text } = await app.categories.list();
  if (status !== 200) throw new Error(`The service is unhealthy: ${text}`);
});

/** Builds a list request with the key. */
const list = (request: RawRequest = {}): Buffer =>
  rawRequest({ ...request, headers: [key, ...(request.headers ?? [])] });

/** Builds a create request with the key; the caller adds the header that delimits the body. */
const create = (headers: string[], body: string = CATEGORY): Buffer =>
  rawRequest({ method: 'POST', headers: [key, JSON_TYPE, ...headers], body });

const contentLength = `Content-Length: ${CATEGORY.length}`;
const chunked = 'Transfer-Encoding: chunked';
const chunks = `e\r\n${CATEGORY}\r\n0\r\n\r\n`;
/** Builds the shortest possible headers, so that as many as possible fit into 16 KiB. */
const emptyHeaders = (count: number): string[] => Array.from({ length: count }, () => 'A:');
/** Bytes that cannot start an HTTP request. */
const GARBAGE = '\x16\x03\x01 not HTTP\r\n\r\n';

async function countCategories(): Promise<number> {
  return (await app.categories.getAll()).length;
}

const statuses = (responses: readonly RawResponse[]): number[] =>
  responses.map(({ status }) => status);

describe('HTTP parsing', () => {
  const CASES: [string, ErrorCode, () => string | Buffer][] = [
    ['plain text', 'BAD_REQUEST', () => 'hello\r\n\r\n'],
    ['a TLS handshake', 'BAD_REQUEST', () => Buffer.from('160301007a010000760303', 'hex')],
    ['the HTTP/2 preface', 'BAD_REQUEST', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown method', 'BAD_REQUEST', () => list({ method: 'FETCH' })],
    ['a lower-case method', 'BAD_REQUEST', () => list({ method: 'get' })],
    ['a missing target', 'BAD_REQUEST', () => list({ target: '' })],
    ['a relative target', 'BAD_REQUEST', () => list({ target: 'v1/categories' })],
    ['a target with a space', 'BAD_REQUEST', () => list({ target: '/v1/ categories' })],
    ['a target with a control character', 'BAD_REQUEST', () => list({ target: '/v1/\x01' })],
    ['a non-ASCII target', 'BAD_REQUEST', () => list({ target: '/v1/\xff' })],
    ['a missing version', 'BAD_REQUEST', () => 'GET /v1/categories\r\n\r\n'],
    ['HTTP/0.9', 'BAD_REQUEST', () => list({ version: 'HTTP/0.9' })],
    ['HTTP/1.2', 'BAD_REQUEST', () => list({ version: 'HTTP/1.2' })],
    ['HTTP/2.0', 'BAD_REQUEST', () => list({ version: 'HTTP/2.0' })],
    ['another protocol name', 'BAD_REQUEST', () => list({ version: 'ICY/1.1' })],
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
    ['an empty header name', 'BAD_REQUEST', () => list({ headers: [': 1'] })],
    ['a header without a colon', 'BAD_REQUEST', () => list({ headers: ['A'] })],
    ['a folded header', 'BAD_REQUEST', () => list({ headers: ['A: 1\r\n 2'] })],
    ['a long header', 'HEADERS_TOO_LARGE', () => list({ headers: [`A: ${'a'.repeat(20_000)}`] })],
    [
      'a long target',
      'HEADERS_TOO_LARGE',
      () => list({ target: `/v1/categories?${'a'.repeat(20_000)}` }),
    ],
    [
      '3,000 headers',
      'HEADERS_TOO_LARGE',
      () => list({ headers: Array.from({ length: 3_000 }, (_, index) => `A-${index}: 1`) }),
    ],
    ['101 headers', 'HEADERS_TOO_LARGE', () => list({ headers: emptyHeaders(99) })],
    [
      'more headers than Node keeps, followed by the key',
      'HEADERS_TOO_LARGE',
      () => rawRequest({ headers: [...emptyHeaders(2_000), key] }),
    ],
    [
      'more headers than Node keeps, followed by Host',
      'HEADERS_TOO_LARGE',
      () => list({ host: false, headers: [...emptyHeaders(2_000), 'Host: petstore'] }),
    ],
    [
      'more headers than Node keeps, followed by Content-Length',
      'HEADERS_TOO_LARGE',
      () => create([...emptyHeaders(2_000), contentLength]),
    ],
    ['a Host with a space', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: a b'] })],
    ['a Host with a path', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: a/b'] })],
    [
      'a Host with user information',
      'BAD_REQUEST',
      () => list({ host: false, headers: ['Host: a@b'] }),
    ],
    ['a non-ASCII Host', 'BAD_REQUEST', () => list({ host: false, headers: ['Host: \xe4'] })],
    ['a Content-Length that is not a number', 'BAD_REQUEST', () => create(['Content-Length: x'])],
    ['a negative Content-Length', 'BAD_REQUEST', () => create(['Content-Length: -1'])],
    [
      'a Content-Length with a sign',
      'BAD_REQUEST',
      () => create([`Content-Length: +${CATEGORY.length}`]),
    ],
    [
      'a Content-Length above 64 bits',
      'BAD_REQUEST',
      () => create([`Content-Length: ${'9'.repeat(30)}`]),
    ],
    ['a hexadecimal Content-Length', 'BAD_REQUEST', () => create(['Content-Length: 0xe'])],
    ['a fractional Content-Length', 'BAD_REQUEST', () => create([`${contentLength}.0`])],
    ['a Content-Length with an exponent', 'BAD_REQUEST', () => create(['Content-Length: 1e1'])],
    [
      'a Content-Length with a space between its digits',
      'BAD_REQUEST',
      () => create(['Content-Length: 1 4']),
    ],
    [
      'a space before the colon of Content-Length',
      'BAD_REQUEST',
      () => create([`Content-Length : ${CATEGORY.length}`]),
    ],
    ['an empty Content-Length', 'BAD_REQUEST', () => create(['Content-Length: '])],
    [
      'two equal Content-Length headers',
      'BAD_REQUEST',
      () => create([contentLength, contentLength]),
    ],
    [
      'two different Content-Length headers',
      'BAD_REQUEST',
      () => create([contentLength, 'Content-Length: 2']),
    ],
    [
      'two lengths in one Content-Length header',
      'BAD_REQUEST',
      () => create([`${contentLength}, ${CATEGORY.length}`]),
    ],
    [
      'Content-Length before Transfer-Encoding',
      'BAD_REQUEST',
      () => create([contentLength, chunked], chunks),
    ],
    [
      'Transfer-Encoding before Content-Length',
      'BAD_REQUEST',
      () => create([chunked, contentLength], chunks),
    ],
    [
      'a transfer coding after chunked',
      'BAD_REQUEST',
      () => create([`${chunked}, identity`], chunks),
    ],
    ['chunked twice in one header', 'BAD_REQUEST', () => create([`${chunked}, chunked`], chunks)],
    ['chunked twice in two headers', 'BAD_REQUEST', () => create([chunked, chunked], chunks)],
    [
      'a transfer coding before chunked',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: gzip, chunked'], chunks),
    ],
    [
      'a transfer coding before chunked in another header',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: gzip', chunked], chunks),
    ],
    [
      'a transfer coding before chunked on a GET request',
      'NOT_IMPLEMENTED',
      () => list({ headers: ['Transfer-Encoding: identity, chunked'], body: '0\r\n\r\n' }),
    ],
    [
      'an empty transfer coding before chunked',
      'NOT_IMPLEMENTED',
      () => create(['Transfer-Encoding: , chunked'], chunks),
    ],
    ['chunked with a parameter', 'BAD_REQUEST', () => create([`${chunked};a=b`], chunks)],
    [
      'a quoted transfer coding',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: "chunked"'], chunks),
    ],
    ['an empty transfer coding', 'BAD_REQUEST', () => create(['Transfer-Encoding: '], chunks)],
    [
      'a space before the colon of Transfer-Encoding',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding : chunked'], chunks),
    ],
    [
      'chunked in HTTP/1.0',
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
      'a transfer coding that ends in chunked',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: xchunked'], chunks),
    ],
    [
      'a transfer coding after a vertical tab',
      'BAD_REQUEST',
      () => create(['Transfer-Encoding: \x0bchunked'], chunks),
    ],
    [
      'a chunk size that is not a number',
      'BAD_REQUEST',
      () => create([chunked], `zz\r\n${CATEGORY}`),
    ],
    ...['0xe', '+e', '-e', ' e', 'e ', ''].map((size): [string, ErrorCode, () => Buffer] => [
      `the chunk size "${size}"`,
      'BAD_REQUEST',
      () => create([chunked], `${size}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ]),
    [
      'a bare line feed after the last chunk',
      'BAD_REQUEST',
      () => create([chunked], `e\r\n${CATEGORY}\r\n0\n\n`),
    ],
    [
      'a bare carriage return after a chunk size',
      'BAD_REQUEST',
      () => create([chunked], `e\r${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      '3,000 trailers',
      'HEADERS_TOO_LARGE',
      () => create([chunked], `e\r\n${CATEGORY}\r\n0\r\n${'A: 1234567\r\n'.repeat(3_000)}\r\n`),
    ],
    [
      'a chunk that exceeds its size',
      'BAD_REQUEST',
      () => create([chunked], `2\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      'a chunk size above 64 bits',
      'BAD_REQUEST',
      () => create([chunked], `${'f'.repeat(17)}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
    [
      'bare line feeds between chunks',
      'BAD_REQUEST',
      () => create([chunked], chunks.replaceAll('\r\n', '\n')),
    ],
    [
      'a huge chunk extension',
      'PAYLOAD_TOO_LARGE',
      () => create([chunked], `e;${'x'.repeat(20_000)}\r\n${CATEGORY}\r\n0\r\n\r\n`),
    ],
  ];

  it.each(CASES)('rejects %s with %s and closes the connection', async (_name, code, bytes) => {
    const before = await countCategories();
    const responses = await sendRaw(app.url, bytes());
    expect(statuses(responses)).toHaveLength(1);
    expect(responses[0]).toBeError(code);
    expect(responses[0]?.headers).toMatchObject({ connection: 'close' });
    // Node's parser errors must not leak.
    expect(responses[0]?.text).not.toMatch(/HPE_|ERR_|Parse Error/);
    expect(await countCategories()).toBe(before);
  });

  it('responds with HEADERS_TOO_LARGE while the client keeps sending headers', async () => {
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
    ['duplicated', { headers: ['Host: petstore'] }],
    ['duplicated in another case', { headers: ['hOST: other'] }],
    ['duplicated in HTTP/1.0', { version: 'HTTP/1.0', headers: ['Host: other'] }],
    ['missing with an absolute target', { host: false, target: 'http://petstore/livez' }],
  ])('is rejected with 400 if it is %s', async (_name, request) => {
    const connection = await RawConnection.open(app.url);
    const response = await connection.send(list(request)).nextResponse();
    connection.close();
    expect(response).toBeError('BAD_REQUEST', /Host/);
  });

  it('is checked before the API key', async () => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({ host: false, headers: ['Connection: close', 'X-Request-Id: mine'] }),
    );
    expect(response).toBeError('BAD_REQUEST', /Host/);
    expect(response?.headers).toMatchObject({ 'x-request-id': 'mine' });
  });

  it.each(['', 'petstore', 'pet_store.example:8080', '127.0.0.1', '[::1]:80', '%70et'])(
    'is accepted if it is "%s"',
    async (host) => {
      const responses = await sendRaw(
        app.url,
        list({ host: false, headers: [`Host: ${host}`, 'Connection: close'] }),
      );
      expect(statuses(responses)).toEqual([200]);
    },
  );
});

describe('a request', () => {
  it('is accepted with 100 headers', async () => {
    const responses = await sendRaw(
      app.url,
      list({ headers: [...emptyHeaders(97), 'Connection: close'] }),
    );
    expect(statuses(responses)).toEqual([200]);
  });
});

describe('an HTTP/1.0 request', () => {
  it.each([
    ['without a Host', false],
    ['with a Host', true],
  ])('gets a response and a closed connection %s', async (_name, host) => {
    const responses = await sendRaw(app.url, list({ version: 'HTTP/1.0', host }));
    expect(statuses(responses)).toEqual([200]);
    expect(responses[0]?.headers).toMatchObject({ connection: 'close' });
  });

  it.each(['100-continue', 'tea'])(
    'ignores Expect: %s, because HTTP/1.0 has no interim responses',
    async (expectation) => {
      const responses = await sendRaw(
        app.url,
        rawRequest({
          method: 'POST',
          version: 'HTTP/1.0',
          headers: [key, JSON_TYPE, contentLength, `Expect: ${expectation}`],
          body: CATEGORY,
        }),
      );
      expect(statuses(responses)).toEqual([201]);
    },
  );
});

describe('the Expect header', () => {
  it.each(['tea', '200-ok', '100-continued'])(
    'is rejected with 417 if it is %s',
    async (expectation) => {
      const before = await countCategories();
      const [response] = await sendRaw(
        app.url,
        create([
          contentLength,
          `Expect: ${expectation}`,
          'Connection: close',
          'X-Request-Id: mine',
        ]),
      );
      expect(response).toBeError('EXPECTATION_FAILED');
      expect(response?.headers).toMatchObject({ 'x-request-id': 'mine' });
      expect(await countCategories()).toBe(before);
    },
  );

  it.each(['100-continue', '100-Continue'])(
    'gets a 100 response if it is %s',
    async (expectation) => {
      const connection = await RawConnection.open(app.url);
      connection.send(create([contentLength, `Expect: ${expectation}`, 'Connection: close'], ''));
      expect(await connection.nextResponse(1)).toMatchObject({ status: 100 });
      expect(statuses(await connection.send(CATEGORY).closed())).toEqual([100, 201]);
    },
  );
});

const connect = (...headers: string[]): Buffer =>
  rawRequest({ method: 'CONNECT', target: 'example.com:443', headers });

describe('a CONNECT request', () => {
  it('is rejected with 405', async () => {
    const responses = await sendRaw(app.url, connect('X-Request-Id: mine'));
    expect(responses).toHaveLength(1);
    expect(responses[0]).toBeError('METHOD_NOT_ALLOWED');
    expect(responses[0]?.headers).toMatchObject({
      allow: expect.stringContaining('GET') as string,
      connection: 'close',
      'x-request-id': 'mine',
    });
  });

  it('is rejected after the responses to earlier requests', async () => {
    const responses = await sendRaw(
      app.url,
      Buffer.concat([list(), create([contentLength]), connect()]),
    );
    expect(statuses(responses)).toEqual([200, 201, 405]);
  });

  it('leaves the service healthy if the client disconnects immediately', async () => {
    for (let round = 0; round < 10; round++) {
      const connection = await RawConnection.open(app.url);
      connection.send(Buffer.concat([connect(), Buffer.alloc(10_000 * round, 'x')]));
      await connection.flushed();
      connection.reset();
    }
    expect((await app.http().get('/livez')).status).toBe(200);
  });
});

describe('a client that resets its connection', () => {
  it.each([
    ['after garbage', () => Buffer.from(GARBAGE.repeat(1_000))],
    ['after a request', () => list()],
    ['while it sends headers', () => list().subarray(0, 30)],
    ['while it sends a body', () => create(['Content-Length: 1000'])],
    ['while it sends chunks', () => create([chunked], `e\r\n${CATEGORY}`)],
  ])('leaves the service healthy %s', async (_name, bytes) => {
    for (let round = 0; round < 5; round++) {
      const connection = await RawConnection.open(app.url);
      await connection.send(bytes()).flushed();
      connection.reset();
    }
    expect((await app.http().get('/livez')).status).toBe(200);
  });
});

describe('a client that half-closes its connection', () => {
  it.each([
    ['a list request', () => [list()], [200]],
    ['a create request', () => [create([contentLength])], [201]],
    ['a chunked create request', () => [create([chunked], chunks)], [201]],
    ['a request without a key', () => [rawRequest({})], [401]],
    [
      'several requests',
      () => [create([contentLength]), list(), create([contentLength])],
      [201, 200, 201],
    ],
    ['a list request and half of another', () => [list(), list().subarray(0, 30)], [200, 400]],
  ])('receives the response to %s', async (_name, requests, expected) => {
    const connection = await RawConnection.open(app.url);
    const responses = await connection.send(Buffer.concat(requests())).endWrites().closed();
    expect(statuses(responses)).toEqual(expected);
  });

  it.each([
    ['of known length', () => create([contentLength])],
    ['in chunks', () => create([chunked], chunks)],
  ])('may have done so before its key is looked up, with a body %s', async (_name, request) => {
    const keys = app.app.get(ApiKeysService);
    jest.spyOn(keys, 'getCached').mockReturnValue(undefined);
    const lookUp = keys.lookUp.bind(keys);
    jest.spyOn(keys, 'lookUp').mockImplementation(async (sent) => {
      const [{ socket }] = (await closed) as [IncomingMessage];
      await waitFor(
        () => socket.readable,
        (readable) => !readable,
        30_000,
      );
      return lookUp(sent);
    });
    const closed = once(app.server, 'request');
    const connection = await RawConnection.open(app.url);
    const [response] = await connection.send(request()).endWrites().closed();
    jest.restoreAllMocks();
    expect(response!.status).toBe(201);
  });
});

describe('request pipelining', () => {
  it('closes a connection with the response to its 10,000th request', async () => {
    const before = await countCategories();
    app.server.once('connection', (connection: Connection) => {
      // Saves as many requests.
      connection.requestCount = 9_997;
    });
    const responses = await sendRaw(
      app.url,
      Buffer.concat([
        rawRequest({ target: '/livez' }),
        rawRequest({ target: '/livez' }),
        create([contentLength]),
        create([contentLength]),
      ]),
    );
    expect(statuses(responses)).toEqual([200, 200, 201]);
    expect(responses.map(({ headers }) => headers['connection'])).toEqual([
      'keep-alive',
      'keep-alive',
      'close',
    ]);
    expect(await countCategories()).toBe(before + 1);
  });

  it('sends responses in the order of the requests', async () => {
    const requests = [
      create([contentLength]),
      list(),
      rawRequest({ target: '/livez' }),
      rawRequest({ target: '/v1/nope' }),
      rawRequest({}),
      list({ headers: ['Connection: close'] }),
    ];
    const responses = await sendRaw(app.url, Buffer.concat(requests));
    expect(statuses(responses)).toEqual([201, 200, 200, 404, 401, 200]);
  });

  it.each([
    ['a list request', () => [list()], [200]],
    ['a create request', () => [create([contentLength])], [201]],
    ['a chunked create request', () => [create([chunked], chunks)], [201]],
    ['a request without a key', () => [rawRequest({})], [401]],
    [
      'several requests',
      () => [list(), create([contentLength]), rawRequest({ target: '/livez' })],
      [200, 201, 200],
    ],
  ])('responds to %s before it rejects trailing garbage', async (_name, requests, expected) => {
    const responses = await sendRaw(app.url, Buffer.concat([...requests(), Buffer.from(GARBAGE)]));
    expect(statuses(responses)).toEqual([...expected, 400]);
    expect(responses.at(-1)).toBeError('BAD_REQUEST');
  });

  it('responds to earlier requests before it rejects a malformed chunk', async () => {
    const before = await countCategories();
    const broken = create([chunked], 'zz\r\n');
    const responses = await sendRaw(
      app.url,
      Buffer.concat([create([contentLength]), list(), create([contentLength]), broken]),
    );
    expect(statuses(responses)).toEqual([201, 200, 201, 400]);
    expect(await countCategories()).toBe(before + 2);
  });

  it('rejects garbage that arrives after a response', async () => {
    const connection = await RawConnection.open(app.url);
    expect((await connection.send(list()).nextResponse()).status).toBe(200);
    expect(statuses(await connection.send(GARBAGE).closed())).toEqual([200, 400]);
  });

  it('discards requests that follow a rejected one', async () => {
    const before = await countCategories();
    const responses = await sendRaw(
      app.url,
      Buffer.concat([list({ headers: ['Host: petstore'] }), create([contentLength])]),
    );
    expect(statuses(responses)).toEqual([400]);
    expect(await countCategories()).toBe(before);
  });

  it('ignores garbage that follows a request with Connection: close', async () => {
    const last = rawRequest({ headers: ['Connection: close'] });
    const responses = await sendRaw(app.url, Buffer.concat([last, Buffer.from(GARBAGE)]));
    expect(statuses(responses)).toEqual([401]);
  });

  it('discards requests that follow a request with Connection: close', async () => {
    const responses = await sendRaw(
      app.url,
      Buffer.concat([list({ headers: ['Connection: close'] }), list()]),
    );
    expect(statuses(responses)).toEqual([200]);
  });

  it('ignores empty lines between requests', async () => {
    const responses = await sendRaw(
      app.url,
      Buffer.concat([
        Buffer.from('\r\n'),
        list(),
        Buffer.from('\r\n\r\n'),
        list({ headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(responses)).toEqual([200, 200]);
  });
});

describe('a request body', () => {
  it('ends at its Content-Length, and the rest is parsed as another request', async () => {
    const before = await countCategories();
    const responses = await sendRaw(app.url, create([contentLength], `${CATEGORY}{"name":"cat"}`));
    expect(statuses(responses)).toEqual([201, 400]);
    expect(await countCategories()).toBe(before + 1);
  });

  it('stores nothing if it is shorter than its Content-Length', async () => {
    const before = await countCategories();
    const connection = await RawConnection.open(app.url);
    const responses = await connection
      .send(create(['Content-Length: 100']))
      .endWrites()
      .closed();
    expect(responses).toHaveLength(1);
    expect(responses[0]).toBeError('BAD_REQUEST');
    expect(await countCategories()).toBe(before);
  });

  it('contains a request smuggled within its Content-Length, which is not executed', async () => {
    const smuggled = list().toString();
    const responses = await sendRaw(
      app.url,
      Buffer.concat([
        create([`Content-Length: ${CATEGORY.length + smuggled.length}`], CATEGORY + smuggled),
        rawRequest({ target: '/livez', headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(responses)).toEqual([400, 200]);
    expect(responses[0]).toBeError('MALFORMED_JSON');
  });

  it('is ignored on a GET request', async () => {
    const responses = await sendRaw(
      app.url,
      Buffer.concat([
        list({ headers: ['Content-Length: 8', 'Content-Type: text/plain'], body: '{"name":' }),
        list({ headers: ['Connection: close'] }),
      ]),
    );
    expect(statuses(responses)).toEqual([200, 200]);
  });

  it('is accepted with chunk extensions and trailers', async () => {
    const body = `7;a=b\r\n{"name"\r\n7;c\r\n:"dog"}\r\n0\r\nX-Trailer: 1\r\n\r\n`;
    const responses = await sendRaw(app.url, create([chunked, 'Connection: close'], body));
    expect(statuses(responses)).toEqual([201]);
  });

  it('cannot provide the key in a trailer', async () => {
    const trailers = `e\r\n${CATEGORY}\r\n0\r\n${key}\r\n\r\n`;
    const responses = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [JSON_TYPE, chunked, 'Connection: close'],
        body: trailers,
      }),
    );
    expect(statuses(responses)).toEqual([401]);
  });

  it.each([
    ['ends', (connection: RawConnection) => connection.endWrites()],
    ['continues with garbage', (connection: RawConnection) => connection.send('zz\r\nzz\r\n')],
  ])('gets a single 401 without a key if it then %s', async (_name, proceed) => {
    const connection = await RawConnection.open(app.url);
    connection.send(rawRequest({ method: 'POST', headers: [JSON_TYPE, chunked] }));
    expect(await connection.nextResponse()).toBeError('UNAUTHORIZED');
    expect(statuses(await proceed(connection).closed())).toEqual([401]);
  });

  it('keeps the X-Request-Id of the client in a 400 for a malformed chunk', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(create([chunked, 'X-Request-Id: mine'], '2\r\n{"'));
    const responses = await connection.send('\r\nzz\r\n').closed();
    expect(responses).toHaveLength(1);
    expect(responses[0]).toBeError('BAD_REQUEST');
    expect(responses[0]?.headers).toMatchObject({ 'x-request-id': 'mine' });
  });
});

describe('the request target', () => {
  const closing = { headers: ['Connection: close'] };

  it.each(['http://petstore/v1/categories', 'http://other:8080/v1/categories?x=1'])(
    'is accepted if it is the absolute URL %s',
    async (target) => {
      expect(statuses(await sendRaw(app.url, list({ target, ...closing })))).toEqual([200]);
    },
  );

  it.each(['http://petstore', 'http:///', '/?a[b]=c&a[__proto__]=d', '/#x'])(
    'is that of the root if it is %s',
    async (target) => {
      const [response] = await sendRaw(app.url, list({ target, ...closing }));
      expect(response?.status).toBe(200);
      expect(response?.text).toContain('"name":"');
    },
  );

  it.each([
    'http://',
    'http://[/v1/categories',
    'http://pet store/',
    '//petstore/v1/categories',
    '/\\petstore',
    '/v1/categories%00',
    '/v1?a[b]=c&a[__proto__]=d',
    '/v1#x',
    '/;x',
    '*',
  ])('is rejected with 400 or 404 if it is %s', async (target) => {
    const responses = await sendRaw(app.url, list({ target, ...closing }));
    expect(responses).toHaveLength(1);
    expect([400, 404]).toContain(responses[0]?.status);
    expect(responses[0]).toBeError(responses[0]?.status === 400 ? 'BAD_REQUEST' : 'NOT_FOUND');
  });

  it('is rejected with 404 if it is * with OPTIONS', async () => {
    const responses = await sendRaw(
      app.url,
      rawRequest({ method: 'OPTIONS', target: '*', ...closing }),
    );
    expect(responses[0]).toBeError('NOT_FOUND');
  });
});

describe('an unsupported method', () => {
  it.each(['OPTIONS', 'TRACE', 'PUT', 'PROPFIND'])(
    'is rejected with 405 without echoing the request: %s',
    async (method) => {
      const responses = await sendRaw(
        app.url,
        list({ method, headers: ['X-Secret: swordfish', 'Connection: close'] }),
      );
      expect(responses).toHaveLength(1);
      expect(responses[0]).toBeError('METHOD_NOT_ALLOWED');
      expect(responses[0]?.headers).toMatchObject({ allow: 'GET, HEAD, POST' });
      expect(responses[0]?.text).not.toContain('swordfish');
      expect(responses[0]?.text).not.toContain(app.key);
    },
  );
});

describe('the Upgrade header', () => {
  it.each([
    ['websocket', ['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13']],
    ['h2c', ['HTTP2-Settings: AAMAAABkAAQAAP__']],
    ['TLS/1.3', []],
  ])('is ignored if it is %s', async (protocol, headers) => {
    const connection = await RawConnection.open(app.url);
    const request = list({
      headers: [`Upgrade: ${protocol}`, 'Connection: Upgrade', ...headers],
    });
    expect((await connection.send(request).nextResponse(1)).status).toBe(200);
    // The connection still speaks HTTP/1.1.
    expect((await connection.send(list()).nextResponse(2)).status).toBe(200);
    connection.close();
  });

  it('does not bypass authentication', async () => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({ headers: ['Upgrade: websocket', 'Connection: Upgrade, close'] }),
    );
    expect(response).toBeError('UNAUTHORIZED');
  });
});

describe('the timeouts of the server', () => {
  it('are those in the documentation', async () => {
    const production = await startApp();
    await production.stop();
    expect(production.server).toMatchObject({
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      timeout: 30_000,
    });
  });
});

describe('a client that is too slow', () => {
  afterEach(() => {
    app.server.headersTimeout = TIMEOUTS.headers;
    app.server.requestTimeout = TIMEOUTS.request;
  });

  const CASES: {
    name: string;
    bytes: () => string | Buffer;
    /** Sent repeatedly so that the connection is never idle. */
    drip?: string;
    /** The timeout that ends the connection. */
    timeout: 'headers' | 'request';
    expected: number[];
  }[] = [
    { name: 'sends nothing', bytes: () => '', timeout: 'headers', expected: [408] },
    { name: 'sends half a line', bytes: () => 'GET /v1', timeout: 'headers', expected: [408] },
    {
      name: 'never completes its headers',
      bytes: () => list().subarray(0, -2),
      timeout: 'headers',
      expected: [408],
    },
    {
      name: 'sends its headers one at a time',
      bytes: () => list().subarray(0, -2),
      drip: 'A: 1\r\n',
      timeout: 'headers',
      expected: [408],
    },
    {
      name: 'never completes its second request',
      bytes: () => Buffer.concat([list(), list().subarray(0, -2)]),
      timeout: 'headers',
      expected: [200, 408],
    },
    {
      name: 'never sends its body',
      bytes: () => create(['Content-Length: 1000', 'X-Request-Id: slow'], ''),
      timeout: 'request',
      expected: [408],
    },
    {
      name: 'sends its body one byte at a time',
      bytes: () => create(['Content-Length: 90000', 'X-Request-Id: slow'], '{'),
      drip: ' ',
      timeout: 'request',
      expected: [408],
    },
    {
      name: 'never sends its last chunk',
      bytes: () => create([chunked, 'X-Request-Id: slow'], `e\r\n${CATEGORY}\r\n`),
      timeout: 'request',
      expected: [408],
    },
    {
      name: 'never sends its body after a 100 response',
      bytes: () =>
        create(['Content-Length: 1000', 'Expect: 100-continue', 'X-Request-Id: slow'], ''),
      timeout: 'request',
      expected: [100, 408],
    },
    // These have their response: the client would take a second one for that of its next request.
    {
      name: 'never sends the body of a request without a key',
      bytes: () => rawRequest({ method: 'POST', headers: [JSON_TYPE, 'Content-Length: 1000'] }),
      timeout: 'request',
      expected: [401],
    },
    {
      name: 'never sends the body of a GET',
      bytes: () => list({ headers: ['Content-Length: 1000'] }),
      timeout: 'request',
      expected: [200],
    },
  ];

  it('gets a 408 and a closed connection, without blocking other clients', async () => {
    const before = await countCategories();
    const clients = await Promise.all(
      CASES.flatMap((slow) =>
        Array.from({ length: 20 }, async () => {
          const connection = await RawConnection.open(app.url);
          return { ...slow, connection: connection.send(slow.bytes()) };
        }),
      ),
    );
    const countOpen = (timeout: 'headers' | 'request'): number =>
      clients.filter((client) => client.timeout === timeout && !client.connection.ended).length;
    const dripping = setInterval(() => {
      for (const { connection, drip } of clients) if (drip !== undefined) connection.send(drip);
    }, 50);
    for (let turn = 0; turn < 20; turn++) {
      const requests = [create([contentLength]), list({ headers: ['Connection: close'] })];
      expect(statuses(await sendRaw(app.url, Buffer.concat(requests)))).toEqual([201, 200]);
    }
    expect([countOpen('headers'), countOpen('request')]).toEqual([100, 120]);
    app.server.headersTimeout = 300;
    await waitFor(
      () => countOpen('headers'),
      (count) => count === 0,
      30_000,
    );
    expect(countOpen('request')).toBe(120);
    app.server.requestTimeout = 300;
    await waitFor(
      () => countOpen('request'),
      (count) => count === 0,
      30_000,
    );
    clearInterval(dripping);

    const received = clients.map(({ name, connection: { responses } }) => ({
      name,
      expected: statuses(responses),
    }));
    expect(received).toEqual(clients.map(({ name, expected }) => ({ name, expected })));
    for (const { timeout, connection } of clients.filter(({ expected }) =>
      expected.includes(408),
    )) {
      const response = connection.responses.at(-1)!;
      expect(response).toBeError('REQUEST_TIMEOUT');
      expect(response.headers['connection']).toBe('close');
      expect(response.headers['x-request-id'] === 'slow').toBe(timeout === 'request');
    }
    expect(await countCategories()).toBe(before + 20);
  });
});

describe('a client that reads no responses', () => {
  afterEach(() => {
    app.server.timeout = TIMEOUTS.socket;
  });

  it('is disconnected', async () => {
    app.server.timeout = 500;
    const accepted = once(app.server, 'connection') as Promise<[Socket]>;
    const client = connectTo(Number(new URL(app.url).port), '127.0.0.1').pause();
    const [connection] = await accepted;
    // These responses do not fit into the buffers of the connection.
    const request = rawRequest({ target: '/docs/swagger-ui-bundle.js' });
    client.write(Buffer.concat(Array.from({ length: 50 }, () => request)));
    await once(connection, 'close');
    // They are 75 MB.
    expect(connection.bytesWritten).toBeLessThan(50_000_000);
    client.destroy();
  });
});
