import type { OpenAPIObject } from '@nestjs/swagger';
import type { Response } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import { isNotImplemented } from './support/not-implemented.js';

/*
 * Tests for the published pet and store operations, which return 501 until a team implements them.
 * The OpenAPI document shows whether that is the case, so these tests pass before and after.
 */

const { jest } = import.meta;
expect.extend(matchers);

const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';
const LIFECYCLE = { deprecation: '@1793491200', sunset: SUNSET };

let app: TestApp;
let document: OpenAPIObject;
beforeAll(async () => {
  app = await startApp();
  document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
});
beforeEach(() => setSystemTime(Date.UTC(2026, 11, 24)));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

function setSystemTime(time: number): void {
  jest.spyOn(Date, 'now').mockReturnValue(time);
}

const send = (method: string, path: string): Promise<Response> =>
  Promise.resolve(
    app.http()[method.toLowerCase() as 'get'](path).auth(app.key, { type: 'bearer' }),
  );

const byName = (a: string, b: string): number => (a < b ? -1 : 1);
const getOperation = (path: string) => document.paths[path]!.get!;

describe('GET /v1/pets/{petId}', () => {
  const paths = ['/v1/pets/1', '/v1/pets/1?x=y', '/v1/pets/any%20thing'];

  it.each(paths)('sends the Deprecation and Sunset headers: %s', async (path) => {
    const response = await send('GET', path);
    const isStub = isNotImplemented(getOperation('/pets/{petId}'));
    expect(response).toBeError(isStub ? 'NOT_IMPLEMENTED' : 'NOT_FOUND');
    expect(response.headers).toMatchObject(LIFECYCLE);
    const head = await send('HEAD', path);
    expect(head.status).toBe(response.status);
    expect(head.text).toBeUndefined();
    expect(head.headers).toMatchObject(LIFECYCLE);
  });

  it('returns 410 from the sunset on', async () => {
    const { status } = await send('GET', '/v1/pets/1');
    setSystemTime(Date.parse(SUNSET) - 1);
    expect((await send('GET', '/v1/pets/1')).status).toBe(status);
    setSystemTime(Date.parse(SUNSET));
    const response = await send('GET', '/v1/pets/1');
    expect(response).toBeError('GONE', new RegExp(SUNSET));
    expect(response.headers).toMatchObject(LIFECYCLE);
  });
});

describe('GET /v1/store/orders', () => {
  it('has no sunset', async () => {
    const isStub = isNotImplemented(getOperation('/store/orders'));
    for (const time of [Date.now(), Date.parse(SUNSET)]) {
      setSystemTime(time);
      const { status, headers, body } = await send('GET', '/v1/store/orders');
      expect(status).toBe(isStub ? 501 : 200);
      expect(body).toEqual(
        isStub ? { code: 'NOT_IMPLEMENTED', message: 'Not implemented.', status: 501 } : [],
      );
      expect(headers).not.toHaveProperty('deprecation');
      expect(headers).not.toHaveProperty('sunset');
    }
  });
});

describe('authentication of stub operations', () => {
  it.each(['/v1/pets/1', '/v1/store/orders'])(
    'is required before and after the sunset: %s',
    async (path) => {
      for (const time of [Date.now(), Date.parse(SUNSET)]) {
        setSystemTime(time);
        expect(await app.http().get(path)).toBeError('UNAUTHORIZED');
        const wrong = app.http().get(path).auth('wrong', { type: 'bearer' });
        expect(await wrong).toBeError('UNAUTHORIZED');
      }
    },
  );
});

describe('routing of stub operations', () => {
  it.each(['/pets', '/pets/{petId}', '/pets/{petId}/toys', '/store', '/store/orders'])(
    'allows exactly the methods in the OpenAPI document: %s',
    async (template) => {
      const methods = Object.keys(document.paths[template] ?? {}).map((name) => name.toUpperCase());
      const allowed = methods.includes('GET') ? [...methods, 'HEAD'] : methods;
      const exists = allowed.length > 0;
      const path = `/v1${template.replace('{petId}', '1')}`;
      const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'];
      for (const method of others.filter((name) => !allowed.includes(name))) {
        const response = await send(method, path);
        expect(response).toBeError(
          exists ? 'METHOD_NOT_ALLOWED' : 'NOT_FOUND',
          exists
            ? `Method ${method} is not allowed for ${path}.`
            : `Route not found: ${method} ${path}.`,
        );
        expect(response.headers['allow']).toBe(
          exists ? allowed.toSorted(byName).join(', ') : undefined,
        );
        expect(response.headers).not.toHaveProperty('sunset');
      }
      expect.hasAssertions();
    },
  );
});

describe('the OpenAPI document', () => {
  it('marks GET /pets/{petId} as deprecated, with its dates', () => {
    const operation = getOperation('/pets/{petId}');
    expect(operation).toMatchObject({
      operationId: 'getPet',
      deprecated: true,
      'x-deprecated-since': '2026-11-01',
      'x-sunset': '2027-11-01',
    });
    expect(operation).not.toHaveProperty('x-stability');
    expect(operation.description).toMatch(/\*\*Deprecated\*\* since 2026-11-01\./);
    expect(operation.description).toMatch(/\*\*Sunset\*\* on 2027-11-01: .*410/);
  });

  it('marks GET /store/orders as experimental', () => {
    const operation = getOperation('/store/orders');
    expect(operation).toMatchObject({ operationId: 'listOrders', 'x-stability': 'experimental' });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });
});
