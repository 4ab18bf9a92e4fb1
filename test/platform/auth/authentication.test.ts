import { createHash } from 'node:crypto';
import { Agent, METHODS, type OutgoingHttpHeaders } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { gzipSync } from 'node:zlib';
import { FEATURES } from '../../../src/features.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { PRODUCT } from '../../../src/product.js';
import { useApp } from '../support/app.js';
import { unknownKey } from '../support/fixtures.js';
import { type HttpResponse, sendRequest } from '../support/http-client.js';
import {
  RawConnection,
  type RawRequest,
  rawRequest,
  type RawResponse,
  sendRaw,
} from '../support/raw-connection.js';
import {
  findMethods,
  getOperations,
  getDeclaredRoutes,
  getProtectedRoutes,
  getRoutes,
  matches,
  PUBLIC_PATHS,
  type Route,
  toExamplePath,
} from '../support/routes.js';
import { StubsModule } from '../support/stubs.module.js';

const agent = new Agent({ keepAlive: true, maxSockets: 8 });
afterAll(() => agent.destroy());
const app = useApp({
  features: [StubsModule, ...FEATURES],
  config: { authFailuresPerMinute: 0 },
});
let revokedKey: string;
let expiredKey: string;
let rotatedKey: string;
/** Every operation that is not declared public, with an example path. */
let operations: Route[];
/** The operations that are declared public. */
let publicOperations: Route[];
beforeAll(async () => {
  const keys = app.app.get(ApiKeysService);
  const { key, record } = await keys.create('revoked');
  await keys.revoke(record.id);
  revokedKey = key;
  expiredKey = (await keys.create('expired', { expiresAt: new Date(Date.now() - 1) })).key;
  const rotated = await keys.create('rotated');
  await keys.rotate(rotated.record.id, 0);
  rotatedKey = rotated.key;
  publicOperations = getDeclaredRoutes(app)
    .filter(({ isPublic }) => isPublic)
    .map(({ method, path }) => ({ method, path: toExamplePath(path) }));
  operations = getExamplePaths()
    .flatMap((path) => findMethods(getRoutes(app), path).map((method) => ({ method, path })))
    .filter(
      (route) =>
        !publicOperations.some(
          ({ method, path }) =>
            route.path === path && (route.method === 'HEAD' ? 'GET' : route.method) === method,
        ),
    );
});

const getExamplePaths = (): string[] => [
  ...new Set(getProtectedRoutes(app).map(({ path }) => toExamplePath(path))),
];

/** The responses to a missing key and to an invalid one, as returned by {@link summarize}. */
const MISSING = unauthorized(
  `Bearer realm="${PRODUCT.name}"`,
  'The API key is missing: send Authorization: Bearer <API_KEY>.',
);
const INVALID = unauthorized(
  `Bearer realm="${PRODUCT.name}", error="invalid_token"`,
  'The API key is invalid: it is unknown, expired or revoked.',
);

function unauthorized(challenge: string, message: string) {
  return {
    status: 401,
    type: 'application/json; charset=utf-8',
    challenge,
    hasRequestId: true,
    text: JSON.stringify({ code: 'UNAUTHORIZED', message, status: 401 }),
  };
}

/** Returns the parts of a response that are compared. */
function summarize({ status, headers, text }: HttpResponse | RawResponse) {
  return {
    status,
    type: headers['content-type'],
    challenge: headers['www-authenticate'],
    hasRequestId: /^[0-9a-f-]{36}$/.test(String(headers['x-request-id'])),
    text,
  };
}

interface RequestParts {
  readonly query?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
}

/** Sends a request to every operation and returns the summaries of the responses. */
function sendToOperations({ query = '', headers = {}, body = '' }: RequestParts) {
  return Promise.all(
    operations.map(async ({ method, path }) => {
      const response = await sendRequest(app.url + path + query, {
        method,
        // Node omits Content-Length for methods that usually have no body.
        headers: body === '' ? headers : { ...headers, 'Content-Length': Buffer.byteLength(body) },
        body,
        agent,
      });
      return { method, path, response: summarize(response) };
    }),
  );
}

/** Returns the operations that send another response than this one. */
async function findOthers(expected: typeof MISSING, parts: RequestParts) {
  const responses = await sendToOperations(parts);
  return responses.filter(({ method, response }) => {
    const text = method === 'HEAD' ? '' : expected.text;
    return !isDeepStrictEqual(response, { ...expected, text });
  });
}

/** Where other services accept a key. */
const OTHER_HEADERS =
  'X-Api-Key Api-Key ApiKey X-Auth-Token X-Access-Token X-Authorization X-Forwarded-Authorization X-Original-Authorization Proxy-Authorization Token Authentication WWW-Authenticate Sec-WebSocket-Protocol Referer';
const PARAMETERS =
  'access_token api_key apiKey apikey key token authorization Authorization session';

/** Files of Swagger UI, which have no routes. */
const FILES = ['/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js.LICENSE.txt'];

const OVERRIDES = {
  'X-HTTP-Method-Override': 'OPTIONS',
  'X-Original-URL': '/livez',
  'X-Rewrite-URL': '/livez',
  'X-Forwarded-For': '127.0.0.1',
  'X-Forwarded-Prefix': '/docs',
};

/** Returns an object with a value for each name; as a body, it creates a category. */
function fill(names: string, value: string): Record<string, string> {
  const entries = names.split(' ').map((name) => [name, value]);
  return { name: 'hidden key', ...Object.fromEntries(entries) };
}

const toQuery = (value: string): string => new URLSearchParams(fill(PARAMETERS, value)).toString();

const json = 'Content-Type: application/json';

describe('every operation', () => {
  // Shows that the tests below would detect a request that is let through.
  it('accepts a valid key', async () => {
    const headers = { Authorization: `Bearer ${app.key}` };
    const responses = await sendToOperations({ headers });
    for (const { method, path, response } of responses)
      expect([method, path, response.status]).not.toEqual([method, path, 401]);
    const otherSpelling = { authorization: `bEaReR   ${app.key}` };
    expect((await app.categories.list(otherSpelling)).status).toBe(200);
  });

  it.each([
    ['read', 'write'],
    ['write', 'read'],
  ] as const)('requires its scope of a key with only %s', async (scope, missing) => {
    const documented = getOperations(await app.getDocument());
    const { key } = await app.app.get(ApiKeysService).create('scoped', { scopes: [scope] });
    const responses = await sendToOperations({ headers: { Authorization: `Bearer ${key}` } });
    const challenge = `Bearer realm="${PRODUCT.name}", error="insufficient_scope", scope="${missing}"`;
    for (const { method, path, response } of responses) {
      const isForbidden = response.status === 403 && response.challenge === challenge;
      const implied = ['GET', 'HEAD'].includes(method) ? 'read' : 'write';
      const name = method.replace('HEAD', 'GET');
      const found = documented.find((each) => each.method === name && matches(each, path));
      const required = found?.operation['x-required-scope'] ?? implied;
      expect([method, path, isForbidden]).toEqual([method, path, required === missing]);
    }
    expect.hasAssertions();
  });

  /** `$` stands for the key. */
  it.each(
    '|Bearer|Bearer |Bearer$|Bearer:$|x Bearer $|Bearer2 $|Token $|Basic $|Basic BASE64($:)|Basic BASE64(:$)|Basic BASE64(x:$)'.split(
      '|',
    ),
  )('reports a missing key for the Authorization header "%s"', async (template) => {
    const header = template
      .replace('$', app.key)
      .replace(/BASE64\((.*)\)/, (_all, text: string) => btoa(text));
    expect(await findOthers(MISSING, { headers: { Authorization: header } })).toEqual([]);
  });

  it.each<[string, (key: string) => string]>([
    ['an unknown key', unknownKey],
    ['a revoked key', () => revokedKey],
    ['an expired key', () => expiredKey],
    ['a key that was rotated out', () => rotatedKey],
    ['an upper-case key', (key) => key.toUpperCase()],
    ['the hash of a key', (key) => createHash('sha256').update(key).digest('hex')],
    ['a very long key', (key) => key + 'A'.repeat(8_000)],
    ['a second key', (key) => `${unknownKey()}, Bearer ${key}`],
    ['a key with a parameter', (key) => `${key};x=1`],
    ['SQL', () => `' OR '1' = '1`],
  ])('reports an invalid key for %s', async (_name, change) => {
    const headers = { Authorization: `Bearer ${change(app.key)}` };
    expect(await findOthers(INVALID, { headers })).toEqual([]);
  });

  it('reports the missing scheme for a key without it', async () => {
    const message = 'The scheme Bearer is missing: send Authorization: Bearer <API_KEY>.';
    const expected = unauthorized(`Bearer realm="${PRODUCT.name}"`, message);
    for (const key of [app.key, unknownKey()])
      expect(await findOthers(expected, { headers: { Authorization: key } })).toEqual([]);
  });

  it.each<[string, (value: string) => RequestParts]>([
    ['nowhere', () => ({})],
    ['other headers', (value) => ({ headers: fill(OTHER_HEADERS, value) })],
    ['cookies', (value) => ({ headers: { Cookie: toQuery(value).replaceAll('&', '; ') } })],
    ['query parameters', (value) => ({ query: `?${toQuery(value)}` })],
    [
      'a JSON body',
      (value) => ({
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(fill(PARAMETERS, value)),
      }),
    ],
    ['a request that claims another method, path or client', () => ({ headers: OVERRIDES })],
  ])('reports a missing key for one in %s', async (_place, getParts) => {
    for (const value of [app.key, `Bearer ${app.key}`])
      expect(await findOthers(MISSING, getParts(value))).toEqual([]);
    expect(await app.categories.getNames()).not.toContain('hidden key');
  });

  it('responds with 405 to the methods that its path does not support, like every public path', async () => {
    // CONNECT requests have no path.
    const methods = METHODS.filter((method) => method !== 'CONNECT');
    expect(methods.length).toBeGreaterThan(20);
    for (const path of [...getExamplePaths(), ...PUBLIC_PATHS, ...FILES]) {
      const supported = FILES.includes(path) ? ['GET', 'HEAD'] : findMethods(getRoutes(app), path);
      for (const method of methods.filter((name) => !supported.includes(name))) {
        const { status, headers } = await sendRequest(app.url + path, { method, agent });
        const expected = [method, path, 405, supported.join(', ')];
        expect([method, path, status, headers.allow]).toEqual(expected);
      }
    }
  });
});

/** Sends a request on a connection of its own, and returns the response. */
async function sendAlone({ headers = [], ...request }: RawRequest): Promise<RawResponse> {
  const bytes = rawRequest({ ...request, headers: [...headers, 'Connection: close'] });
  const responses = await sendRaw(app.url, bytes);
  expect(responses).toHaveLength(1);
  return responses[0]!;
}

describe('every route that needs no key', () => {
  it('ignores an invalid one', async () => {
    const routes = getRoutes(app).filter(({ path }) => PUBLIC_PATHS.has(path));
    expect(new Set(routes.map(({ path }) => path))).toEqual(PUBLIC_PATHS);
    expect(publicOperations).toContainEqual({ method: 'GET', path: '/stubs/public-state' });
    for (const { method, path } of [...routes, ...publicOperations]) {
      for (const headers of [{}, { Authorization: `Bearer ${unknownKey()}` }]) {
        const { status } = await sendRequest(app.url + path, { method, headers });
        expect([method, path, status]).not.toEqual([method, path, 401]);
      }
    }
  });
});

const category = '{"name":"unread"}';

describe('authentication before the body is read', () => {
  it.each<[string, string[], string | Buffer]>([
    ['malformed JSON', [json], '{"name":'],
    ['a body that is too large', [json], `{"name":"${'a'.repeat(200_000)}"}`],
    ['a gzip bomb', [json, 'Content-Encoding: gzip'], gzipSync('a'.repeat(1_000_000))],
    ['a missing Content-Type', [], category],
    ['a chunked body', [json, 'Transfer-Encoding: chunked'], `11\r\n${category}\r\n0\r\n\r\n`],
  ])('rejects %s with 401', async (_name, lines, body) => {
    const length = Buffer.byteLength(body);
    const isChunked = lines.some((line) => line.startsWith('Transfer-Encoding'));
    const headers = isChunked ? lines : [...lines, `Content-Length: ${length}`];
    for (const [authorization, expected] of [
      [[], MISSING],
      [[`Authorization: Bearer ${unknownKey()}`], INVALID],
    ] as const) {
      const request = { method: 'POST', headers: [...headers, ...authorization], body };
      expect(summarize(await sendAlone(request))).toEqual(expected);
    }
    expect(await app.categories.getNames()).not.toContain('unread');
  });

  it('responds with 401, not 100, to Expect: 100-continue', async () => {
    const connection = await RawConnection.open(app.url);
    const headers = [json, `Content-Length: ${category.length}`, 'Expect: 100-continue'];
    connection.send(rawRequest({ method: 'POST', headers }));
    // The next bytes could be the body or another request, so the connection cannot be reused.
    const responses = await connection.closed();
    expect(responses.map(summarize)).toEqual([MISSING]);
    expect(responses[0]?.headers).toMatchObject({ connection: 'close' });
  });
});
