import { randomBytes } from 'node:crypto';
import { Agent, METHODS, request as httpRequest } from 'node:http';
import type { OpenAPIObject } from '@nestjs/swagger';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { startApp, type TestApp } from './support/app.js';
import { getProtectedRoutes, toExamplePath } from './support/routes.js';

type Headers = readonly (readonly [string, string])[];

const unknownKey = (): string => `pet_${randomBytes(32).toString('base64url')}`;

function basic(credentials: string): string {
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

describe('authorization of every path and method', () => {
  /** CONNECT requests have no path. */
  const methods = METHODS.filter((method) => method !== 'CONNECT');
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });

  let app: TestApp;
  /** The supported methods of each protected path. */
  let operations: Map<string, ReadonlySet<string>>;
  let keys: Record<'valid' | 'revoked' | 'expired', string>;
  beforeAll(async () => {
    app = await startApp({ config: { authFailuresPerMinute: 0 } });
    const service = app.app.get(ApiKeysService);
    const revoked = await service.create('revoked');
    await service.revoke(revoked.record.id);
    keys = {
      valid: app.key,
      revoked: revoked.key,
      expired: (await service.create('expired', new Date(Date.now() - 1))).key,
    };
    operations = await findOperations();
  });
  afterAll(async () => {
    agent.destroy();
    await app.stop();
  });

  /** Returns the supported methods of every protected path, which must include those of the OpenAPI document. */
  async function findOperations(): Promise<Map<string, ReadonlySet<string>>> {
    const found = new Map<string, Set<string>>();
    for (const { method, path } of getProtectedRoutes(app)) {
      const example = toExamplePath(path);
      const supported = found.get(example) ?? new Set<string>();
      supported.add(method);
      if (method === 'GET') supported.add('HEAD');
      found.set(example, supported);
    }
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const documented = Object.keys(paths).map((path) => `/v1${toExamplePath(path)}`);
    expect([...found.keys()]).toEqual(expect.arrayContaining(documented));
    return found;
  }

  /** Sends a request with exactly these headers and returns the status and the challenge. */
  function send(
    method: string,
    path: string,
    headers: Headers,
    body = '',
  ): Promise<{ status: number; challenge: string | undefined }> {
    const contentLength = body === '' ? [] : ['Content-Length', String(Buffer.byteLength(body))];
    return new Promise((resolve, reject) => {
      httpRequest(
        app.url + path,
        { method, agent, headers: ['Host', 'petstore', ...contentLength, ...headers.flat()] },
        (response) => {
          response
            .resume()
            .once('error', reject)
            .once('end', () =>
              resolve({
                status: response.statusCode!,
                challenge: response.headers['www-authenticate'],
              }),
            );
        },
      )
        .once('error', reject)
        .end(body);
    });
  }

  /**
   * Requests every path with every method and returns the unexpected responses: an operation requires
   * 401 with a challenge, any other method 405.
   */
  async function unexpectedResponses(
    headers: Headers,
    { query = '', body = '' } = {},
  ): Promise<string[]> {
    const requests = [...operations].flatMap(([path, supported]) =>
      methods.map((method) => ({ method, path, expected: supported.has(method) ? 401 : 405 })),
    );
    const responses = await Promise.all(
      requests.map(async ({ method, path, expected }) => {
        const { status, challenge } = await send(method, path + query, headers, body);
        const isExpected =
          status === expected && (status === 405 || challenge?.startsWith('Bearer ') === true);
        return { name: `${method} ${path}: ${status}`, isExpected };
      }),
    );
    return responses.filter(({ isExpected }) => !isExpected).map(({ name }) => name);
  }

  it('covers the published paths and more than 20 methods', () => {
    expect([...operations.keys()]).toEqual(
      expect.arrayContaining(['/v1/categories', '/v1/pets/1', '/v1/store/orders']),
    );
    expect(methods.length).toBeGreaterThan(20);
  });

  // Shows that the tests below would detect a request that is let through.
  it('accepts a valid key', async () => {
    const accepted = await unexpectedResponses([['Authorization', `Bearer ${keys.valid}`]]);
    let count = 0;
    for (const supported of operations.values()) count += supported.size;
    expect(accepted).toHaveLength(count);
    expect(accepted).toContain('GET /v1/categories: 200');
  });

  it.each<[string, () => Headers]>([
    ['a missing key', () => []],
    ['an empty Authorization header', () => [['Authorization', '']]],
    ['an unknown key', () => [['Authorization', `Bearer ${unknownKey()}`]]],
    ['a revoked key', () => [['Authorization', `Bearer ${keys.revoked}`]]],
    ['an expired key', () => [['Authorization', `Bearer ${keys.expired}`]]],
    ['a truncated key', () => [['Authorization', `Bearer ${keys.valid.slice(0, -1)}`]]],
    ['an upper-case key', () => [['Authorization', `Bearer ${keys.valid.toUpperCase()}`]]],
    ['a lower-case key', () => [['Authorization', `Bearer ${keys.valid.toLowerCase()}`]]],
    ['a key with an extra character', () => [['Authorization', `Bearer ${keys.valid}A`]]],
    ['the key without a scheme', () => [['Authorization', keys.valid]]],
    ['the key with the Token scheme', () => [['Authorization', `Token ${keys.valid}`]]],
    ['the key as the Basic user name', () => [['Authorization', basic(`${keys.valid}:`)]]],
    ['the key as the Basic password', () => [['Authorization', basic(`x:${keys.valid}`)]]],
    [
      'the key in a second Authorization header',
      () => [
        ['Authorization', `Bearer ${unknownKey()}`],
        ['Authorization', `Bearer ${keys.valid}`],
      ],
    ],
    [
      'two keys in one Authorization header',
      () => [['Authorization', `Bearer ${unknownKey()}, Bearer ${keys.valid}`]],
    ],
    [
      'the key in other headers',
      () =>
        [
          'X-API-Key',
          'Api-Key',
          'X-Auth-Token',
          'X-Access-Token',
          'X-Authorization',
          'X-Forwarded-Authorization',
          'X-Original-Authorization',
          'Proxy-Authorization',
          'Authentication',
          'Token',
          'Referer',
        ].flatMap((name): [string, string][] => [
          [name, keys.valid],
          [name, `Bearer ${keys.valid}`],
        ]),
    ],
    [
      'the key in cookies',
      () => [['Cookie', `api_key=${keys.valid}; Authorization=Bearer ${keys.valid}`]],
    ],
    [
      'headers that override the method, path or client address',
      () => [
        ['X-HTTP-Method-Override', 'OPTIONS'],
        ['X-Original-URL', '/livez'],
        ['X-Rewrite-URL', '/livez'],
        ['X-Forwarded-For', '127.0.0.1'],
        ['X-Forwarded-Prefix', '/docs'],
      ],
    ],
  ])('rejects %s with 401', async (_name, headers) => {
    expect(await unexpectedResponses(headers())).toEqual([]);
  });

  it('rejects the key in the query string with 401', async () => {
    const value = encodeURIComponent(`Bearer ${keys.valid}`);
    const names = ['access_token', 'api_key', 'apikey', 'key', 'token'];
    const query = names.map((name) => `${name}=${keys.valid}`).join('&');
    expect(await unexpectedResponses([], { query: `?${query}&authorization=${value}` })).toEqual(
      [],
    );
  });

  it('rejects the key in the body, and a malformed body without a key, with 401', async () => {
    for (const [type, body] of [
      ['application/json', JSON.stringify({ name: 'dog', access_token: keys.valid })],
      ['application/json', '{"name":'],
      ['application/x-www-form-urlencoded', `name=dog&access_token=${keys.valid}`],
    ] as const) {
      expect(await unexpectedResponses([['Content-Type', type]], { body })).toEqual([]);
    }
    const list = await app.http().get('/v1/categories').auth(keys.valid, { type: 'bearer' });
    expect(list.body).not.toContainEqual(expect.objectContaining({ name: 'dog' }));
  });
});
