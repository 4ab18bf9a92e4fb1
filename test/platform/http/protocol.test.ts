import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect as connectTo, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { ApiKeyVerifier } from '../../../src/platform/auth/api-key-verifier.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import type { ErrorCode } from '../../../src/platform/errors/error-codes.js';
import { HttpAdapter } from '../../../src/platform/http/server/http.adapter.js';
import { startApp, useApp } from '../support/app.js';
import { type RawResponse, RawConnection } from '../support/raw-connection.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const { jest } = import.meta;

/** Long timeouts for a busy machine; the tests of the timeouts shorten them. */
const TIMEOUTS = { headers: 60_000, request: 60_000, checkInterval: 100, socket: 60_000 };

const adapter = new HttpAdapter(loadConfig(PRODUCT, {}), TIMEOUTS);
const app = useApp({ adapter });

// The service must keep serving other clients after every test.
afterEach(async () => {
  const { status, text } = await app.categories.list();
  if (status !== 200) throw new Error(`The service is unhealthy: ${text}`);
});

const HOST = 'Host: petstore';
/** `{key}` becomes an API key when the request is sent. */
const KEY = 'Authorization: Bearer {key}';
const CLOSE = 'Connection: close';
const KEEP_ALIVE = 'Connection: keep-alive';
const TYPE = 'Content-Type: application/json';
const CATEGORY = '{"name":"dog"}';
const EXPECT = 'Expect: 100-continue';
const LENGTH = `Content-Length: ${CATEGORY.length}`;
const CHUNKED = 'Transfer-Encoding: chunked';
const CHUNKS = `e\r\n${CATEGORY}\r\n0\r\n\r\n`;
/** A compressed body that exceeds the limit long before its end. */
const LARGE = gzipSync(randomBytes(500_000)).toString('latin1');
const LARGE_CHUNKS = `${LARGE.length.toString(16)}\r\n${LARGE}\r\n0\r\n\r\n`;
/** Bytes that cannot start an HTTP request. */
const GARBAGE = '\x16\x03\x01 not HTTP\r\n\r\n';

/** A request with these headers. */
const write = (line: string, headers: string[], body = ''): string =>
  `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`;
/** A list request with the key. */
const get = (...headers: string[]): string =>
  write('GET /v1/categories HTTP/1.1', [HOST, KEY, ...headers]);
/** A list request with another first line. */
const line = (first: string, ...headers: string[]): string => write(first, [HOST, KEY, ...headers]);
const withHost = (...hosts: string[]): string =>
  write('GET /v1/categories HTTP/1.1', [KEY, ...hosts, CLOSE]);
/** A create request with the key and a header that delimits the body. */
const post = (headers: string | string[], body = CATEGORY): string =>
  write('POST /v1/categories HTTP/1.1', [HOST, KEY, TYPE, ...[headers].flat()], body);
const chunked = (body: string): string => post(CHUNKED, body);
const withCoding = (coding: string): string => post(`Transfer-Encoding: ${coding}`, CHUNKS);
const withLength = (length: string): string => post(`Content-Length: ${length}`);
const created = post(LENGTH);
const last = get(CLOSE);
const unauthorized = write('GET /v1/categories HTTP/1.1', [HOST]);
const live = write('GET /livez HTTP/1.1', [HOST]);
const connect = write('CONNECT example.com:443 HTTP/1.1', [HOST, 'X-Request-Id: mine']);
/** The shortest possible headers, so that as many as possible fit into 16 KiB. */
const emptyHeaders = (count: number): string[] => Array.from({ length: count }, () => 'A:');

const toBytes = (text: string): Buffer => Buffer.from(text.replaceAll('{key}', app.key), 'latin1');

const open = async (text = ''): Promise<RawConnection> =>
  (await RawConnection.open(app.url)).send(toBytes(text));

/** Sends requests on one connection, and returns all responses once the service closes it. */
const send = async (text: string): Promise<RawResponse[]> => (await open(text)).closed();

const statuses = (responses: readonly RawResponse[]): number[] =>
  responses.map(({ status }) => status);

const countCategories = async (): Promise<number> => (await app.categories.getAll()).length;

describe('malformed HTTP', () => {
  /** What is wrong, and the request. */
  type Malformed = [string, string];
  const BAD_REQUESTS: Malformed[] = [
    ['plain text', 'hello\r\n\r\n'],
    ['a target with a fragment', line('GET /v1/categories#x HTTP/1.1')],
    ['the version HTTP/2.0', line('GET /v1/categories HTTP/2.0')],
    ['no Host', withHost()],
    ['no Host but an absolute target', write('GET http://petstore/livez HTTP/1.1', [KEY, CLOSE])],
    ['two equal Hosts', withHost(HOST, HOST)],
    ['two Hosts in HTTP/1.0', line('GET /v1/categories HTTP/1.0', 'hOST: other')],
    ...['', ':80', 'a b', 'a/b', 'a@b', '\xe4'].map((host): Malformed => [
      `the Host "${host}"`,
      withHost(`Host: ${host}`),
    ]),
    ['two equal Authorization headers', get(KEY)],
    ['two Content-Type headers', post([LENGTH, 'content-type: text/plain'])],
    ['Content-Length before Transfer-Encoding', post([LENGTH, CHUNKED], CHUNKS)],
    ...['chunked, identity', 'chunked, chunked', 'chunked;a=b', '', 'xchunked', '\x0bchunked'].map(
      (coding): Malformed => [`the transfer coding "${coding}"`, withCoding(coding)],
    ),
    ['chunked in two headers', post([CHUNKED, CHUNKED], CHUNKS)],
    ['chunked in HTTP/1.0', post([CHUNKED, KEEP_ALIVE], CHUNKS).replace('1.1', '1.0')],
    ['the chunk size "zz"', chunked(CHUNKS.replace('e', 'zz'))],
  ];
  const TOO_LARGE: Malformed[] = [
    ['a long header', get(`A: ${'a'.repeat(20_000)}`)],
    ['a long If-None-Match', get(`If-None-Match: ${'a'.repeat(8_193)}`)],
    ['two long If-Match', get(...Array<string>(2).fill(`If-Match: ${'a'.repeat(4_096)}`))],
    ['101 headers', get(...emptyHeaders(99))],
    // Node keeps a thousand headers, and drops the rest.
    ['2,000 headers before Content-Length', post([...emptyHeaders(2_000), LENGTH])],
    ['3,000 trailers', chunked(CHUNKS.replace('0\r\n', `0\r\n${'A: 1234567\r\n'.repeat(3_000)}`))],
  ];
  const UNSUPPORTED: Malformed[] = [
    ['the transfer codings "gzip, chunked"', withCoding('gzip, chunked')],
    ['transfer codings in two headers', post(['Transfer-Encoding: gzip', CHUNKED], CHUNKS)],
  ];
  const extension = chunked(CHUNKS.replace('e', `e;${'x'.repeat(20_000)}`));

  describe.each<[ErrorCode, Malformed[]]>([
    ['BAD_REQUEST', BAD_REQUESTS],
    ['HEADERS_TOO_LARGE', TOO_LARGE],
    ['NOT_IMPLEMENTED', UNSUPPORTED],
    ['PAYLOAD_TOO_LARGE', [['a huge chunk extension', extension]]],
  ])('reports %s', (code, requests) => {
    it.each(requests)(
      'rejects %s, stores nothing and closes the connection',
      async (_name, text) => {
        const before = await countCategories();
        const responses = await send(text);
        expect(responses).toHaveLength(1);
        expect(responses[0]).toBeError(code);
        expect(responses[0]?.headers).toMatchObject({ connection: 'close' });
        // Node's parser errors must not leak.
        expect(responses[0]?.text).not.toMatch(/HPE_|ERR_|Parse Error/);
        expect(await countCategories()).toBe(before);
      },
    );
  });

  it.each([
    ['a missing Host, before the API key', write('GET / HTTP/1.1', ['X-Request-Id: mine'])],
    ['a malformed chunk', post([CHUNKED, 'X-Request-Id: mine'], '2\r\n{"\r\nzz\r\n')],
    ['an unsupported Expect', post([LENGTH, 'Expect: tea', 'X-Request-Id: mine', CLOSE])],
    ['CONNECT', connect],
  ])('returns the X-Request-Id of %s', async (_name, text) => {
    const responses = await send(text);
    expect(responses.map(({ headers }) => headers['x-request-id'])).toEqual(['mine']);
  });
});

/** Requests on one connection, and the statuses of all responses until it is closed. */
type Conversation = [string, string, number[]];
const CONVERSATIONS: Conversation[] = [
  ['100 headers', get(...emptyHeaders(97), CLOSE), [200]],
  [
    'an If-None-Match of 8,192 characters',
    get(`If-None-Match: ${'a'.repeat(8_192)}`, CLOSE),
    [200],
  ],
  ['a Host with a port', withHost('Host: pet_store.example:8080'), [200]],
  ['a Host that is an IPv6 address', withHost('Host: [::1]:80'), [200]],
  ['HTTP/1.0 without a Host', write('GET /v1/categories HTTP/1.0', [KEY]), [200]],
  ...['100-continue', 'tea'].map((expectation): Conversation => [
    `Expect: ${expectation} in HTTP/1.0, which has no interim responses`,
    post([LENGTH, `Expect: ${expectation}`]).replace('HTTP/1.1', 'HTTP/1.0'),
    [201],
  ]),
  ['Expect: 100-Continue', post([LENGTH, 'Expect: 100-Continue', CLOSE]), [100, 201]],
  ...['tea', '100-continued', '100-continue, tea'].map((expectation): Conversation => [
    `the unsupported Expect: ${expectation}`,
    post([LENGTH, `Expect: ${expectation}`, CLOSE]),
    [417],
  ]),
  ['requests after an Expect without a body', get(EXPECT) + created + last, [200, 201, 200]],
  [
    'requests after an unsupported Expect, which are discarded',
    get('Expect: tea') + created,
    [417],
  ],
  ['CONNECT after other requests', get() + created + connect, [200, 201, 405]],
  [
    'pipelined requests, in their order',
    created + get() + live + line('GET /v1/nope HTTP/1.1') + unauthorized + last,
    [201, 200, 200, 404, 401, 200],
  ],
  ['valid requests before garbage', get() + created + GARBAGE, [200, 201]],
  ['valid requests before a bad chunk', get() + created + chunked('zz\r\n'), [200, 201]],
  ['requests that follow a rejected one, which are discarded', get(HOST) + created, [400]],
  ['requests after Connection: close, which are discarded', last + created, [200]],
  [
    'a request smuggled within a Content-Length, which is not executed',
    post(`Content-Length: ${CATEGORY.length + live.length}`, CATEGORY + live) + last,
    [400, 200],
  ],
  [
    'a compressed body that is too large, whose rest is discarded',
    post([CHUNKED, 'Content-Encoding: gzip'], LARGE_CHUNKS) + last,
    [413, 200],
  ],
  [
    'a GET request with a body, which is ignored',
    get('Content-Length: 2') + '{"' + last,
    [200, 200],
  ],
  [
    'the key in a trailer, which does not count',
    post([CHUNKED, CLOSE], CHUNKS.replace('0\r\n', `0\r\n${KEY}\r\n`)).replace(`${KEY}\r\n`, ''),
    [401],
  ],
  ['an absolute target', line('GET http://other:80/v1/categories?x=1 HTTP/1.1', CLOSE), [200]],
  ['an invalid absolute target', line('GET http://[/v1/categories HTTP/1.1', CLOSE), [400]],
  ...['//petstore/v1/categories', '/v1/categories%00', '*'].map((target): Conversation => [
    `the target ${target}`,
    line(`GET ${target} HTTP/1.1`, CLOSE),
    [404],
  ]),
  ['the target * with OPTIONS', line('OPTIONS * HTTP/1.1', CLOSE), [204]],
  ...['TRACE /v1/categories', 'CONNECT petstore:443'].map((method): Conversation => [
    method,
    line(`${method} HTTP/1.1`, CLOSE),
    [405],
  ]),
];

describe('a connection', () => {
  it.each(CONVERSATIONS)('returns the responses to %s', async (_name, text, expected) => {
    const before = await countCategories();
    const responses = await send(text);
    expect(statuses(responses)).toEqual(expected);
    expect(responses.at(-1)!.headers['connection']).toBe('close');
    for (const { status, text: body } of responses.filter((each) => each.status >= 400))
      expect(JSON.parse(body)).toMatchObject({ status });
    // TRACE, for example, must not echo the request.
    expect(JSON.stringify(responses)).not.toContain(app.key);
    const stored = expected.filter((status) => status === 201).length;
    expect(await countCategories()).toBe(before + stored);
  });

  it('returns 400 to garbage that arrives after a response', async () => {
    const connection = await open(get());
    expect((await connection.nextResponse()).status).toBe(200);
    expect(statuses(await connection.send(GARBAGE).closed())).toEqual([200, 400]);
  });

  it('closes with the response to its 10,000th request', async () => {
    const before = await countCategories();
    const responses = await send(live.repeat(9_999) + created + created);
    expect(responses).toHaveLength(10_000);
    expect(responses.at(-2)!.headers).toMatchObject({ connection: 'keep-alive' });
    expect(responses.at(-1)).toMatchObject({ status: 201, headers: { connection: 'close' } });
    expect(await countCategories()).toBe(before + 1);
  });

  it('returns 400 to an incomplete request on a half-closed connection', async () => {
    const before = await countCategories();
    for (const text of [get().slice(0, 30), withLength('100')])
      expect(statuses(await (await open(text)).endWrites().closed())).toEqual([400]);
    expect(await countCategories()).toBe(before);
  });

  it('serves a request whose client half-closes before its key is looked up', async () => {
    const verifier = app.app.get(ApiKeyVerifier);
    const verify = verifier.verify.bind(verifier);
    const requested = once(app.server, 'request');
    jest.spyOn(verifier, 'verify').mockImplementation(async (...sent) => {
      const [{ socket }] = (await requested) as [IncomingMessage];
      await waitFor(() => !socket.readable);
      return (await verify(...sent))!;
    });
    const responses = await (await open(chunked(CHUNKS))).endWrites().closed();
    jest.restoreAllMocks();
    expect(statuses(responses)).toEqual([201]);
  });

  it.each([
    ['after garbage', GARBAGE.repeat(1_000)],
    ['while it sends a body', withLength('1000')],
    ['after CONNECT', connect + 'x'.repeat(50_000)],
  ])('keeps serving other clients after a reset %s', async (_name, text) => {
    const connection = await open(text);
    await connection.flushed();
    connection.reset();
    expect((await app.http().get('/livez')).status).toBe(200);
  });

  it.each<[string, (connection: RawConnection) => RawConnection]>([
    ['ends', (connection) => connection.endWrites()],
    ['continues with garbage', (connection) => connection.send('zz\r\nzz\r\n')],
  ])('returns a single 401 if a body without a key then %s', async (_name, proceed) => {
    const connection = await open(chunked('').replace(`${KEY}\r\n`, ''));
    expect(await connection.nextResponse()).toBeError('UNAUTHORIZED');
    expect(statuses(await proceed(connection).closed())).toEqual([401]);
  });
});

describe('the server', () => {
  it('applies the documented timeouts', async () => {
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

  const MINE = 'X-Request-Id: slow';
  const incomplete = get().slice(0, -2);
  const afterContinue = post(['Content-Length: 1000', EXPECT, MINE], '');
  /** What a client does and sends, the timeout that ends it, the statuses, and what it sends repeatedly. */
  const CASES: [string, string, 'headers' | 'request', number[], drip?: string][] = [
    ['sends nothing', '', 'headers', [408]],
    ['sends its headers one at a time', incomplete, 'headers', [408], 'A: 1\r\n'],
    ['never completes its second request', get() + incomplete, 'headers', [200, 408]],
    ['never sends its body', post(['Content-Length: 1000', MINE], ''), 'request', [408]],
    ['drips its body', post(['Content-Length: 90000', MINE], '{'), 'request', [408], ' '],
    ['never sends its body after a 100 response', afterContinue, 'request', [100, 408]],
    // A client that has its response would take a second one for the response to its next request.
    ['never sends a body without a key', chunked('').replace(KEY, 'A: 1'), 'request', [401]],
    ['never sends the body of a GET', get('Content-Length: 1000'), 'request', [200]],
  ];

  it('receives 408 and a closed connection, without blocking other clients', async () => {
    const before = await countCategories();
    const clients = await Promise.all(
      CASES.map(async ([name, text, timeout, expected, drip]) => {
        return { name, timeout, expected, drip, connection: await open(text) };
      }),
    );
    const dripping = setInterval(() => {
      for (const { connection, drip } of clients) if (drip !== undefined) connection.send(drip);
    }, 50);
    expect(statuses(await send(created + last))).toEqual([201, 200]);
    for (const timeout of ['headers', 'request'] as const) {
      const affected = clients.filter((client) => client.timeout === timeout);
      expect(affected.filter(({ connection }) => connection.ended)).toEqual([]);
      app.server[`${timeout}Timeout`] = 300;
      await Promise.all(affected.map(({ connection }) => connection.closed()));
    }
    clearInterval(dripping);
    for (const { name, timeout, expected, connection } of clients) {
      const { responses } = connection;
      expect([name, statuses(responses)]).toEqual([name, expected]);
      if (!expected.includes(408)) continue;
      expect(responses.at(-1)).toBeError('REQUEST_TIMEOUT');
      const { 'x-request-id': id, connection: after } = responses.at(-1)!.headers;
      expect([id === 'slow', after]).toEqual([timeout === 'request', 'close']);
    }
    expect(await countCategories()).toBe(before + 1);
  });
});

describe('a client that reads no responses', () => {
  afterEach(() => {
    app.server.timeout = TIMEOUTS.socket;
  });

  it('loses its connection after the timeout, unlike one that reads slowly', async () => {
    app.server.timeout = 500;
    // The responses have 75 MB, which do not fit into the buffers of a connection.
    const request = write('GET /docs/swagger-ui-bundle.js HTTP/1.1', [HOST]).repeat(50);
    const connectReader = async () => {
      const accepted = once(app.server, 'connection') as Promise<[Socket]>;
      const client = connectTo(Number(new URL(app.url).port), '127.0.0.1').pause();
      const [connection] = await accepted;
      client.write(request);
      return { client, connection };
    };
    const slow = await connectReader();
    const reading = setInterval(() => slow.client.read(), 10);
    const idle = await connectReader();
    await once(idle.connection, 'close');
    expect(idle.connection.bytesWritten).toBeLessThan(50_000_000);
    expect(slow.connection.destroyed).toBe(false);
    clearInterval(reading);
    for (const { client } of [slow, idle]) client.destroy();
  });
});
