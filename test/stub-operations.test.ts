import type { OpenAPIObject } from '@nestjs/swagger';
import type { Response } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import { isNotImplemented } from './support/not-implemented.js';

/*
 * What the interface publishes of pets and store orders. An operation answers 501 until it is specified,
 * which the document tells: so this holds before a team builds it, and after.
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
beforeEach(() => moveClock(Date.UTC(2026, 11, 24)));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

function moveClock(time: number): void {
  jest.spyOn(Date, 'now').mockReturnValue(time);
}

const send = (method: string, path: string): Promise<Response> =>
  Promise.resolve(
    app.http()[method.toLowerCase() as 'get'](path).auth(app.key, { type: 'bearer' }),
  );

const byName = (a: string, b: string): number => (a < b ? -1 : 1);
const operationAt = (path: string) => document.paths[path]!.get!;

describe('GET /v1/pets/{petId}', () => {
  const paths = ['/v1/pets/1', '/v1/pets/1?x=y', '/v1/pets/any%20thing'];

  it.each(paths)(
    'says since when it is deprecated and when it ends, whatever it answers: %s',
    async (path) => {
      const answer = await send('GET', path);
      const isStub = isNotImplemented(operationAt('/pets/{petId}'));
      expect(answer).toBeError(isStub ? 'NOT_IMPLEMENTED' : 'NOT_FOUND');
      expect(answer.headers).toMatchObject(LIFECYCLE);
      const head = await send('HEAD', path);
      expect(head.status).toBe(answer.status);
      expect(head.text).toBeUndefined();
      expect(head.headers).toMatchObject(LIFECYCLE);
    },
  );

  it('lives until the last millisecond before the sunset, and is gone then', async () => {
    const { status } = await send('GET', '/v1/pets/1');
    moveClock(Date.parse(SUNSET) - 1);
    expect((await send('GET', '/v1/pets/1')).status).toBe(status);
    moveClock(Date.parse(SUNSET));
    const answer = await send('GET', '/v1/pets/1');
    expect(answer).toBeError('GONE', new RegExp(SUNSET));
    expect(answer.headers).toMatchObject(LIFECYCLE);
  });
});

it('GET /v1/store/orders has no sunset', async () => {
  const isStub = isNotImplemented(operationAt('/store/orders'));
  for (const time of [Date.now(), Date.parse(SUNSET)]) {
    moveClock(time);
    const { status, headers, body } = await send('GET', '/v1/store/orders');
    expect(status).toBe(isStub ? 501 : 200);
    expect(body).toEqual(
      isStub
        ? { code: 'NOT_IMPLEMENTED', message: 'Store orders are not specified yet.', status: 501 }
        : [],
    );
    expect(headers).not.toHaveProperty('deprecation');
    expect(headers).not.toHaveProperty('sunset');
  }
});

it.each(['/v1/pets/1', '/v1/store/orders'])(
  '%s asks for the key first, before the sunset and after',
  async (path) => {
    for (const time of [Date.now(), Date.parse(SUNSET)]) {
      moveClock(time);
      expect(await app.http().get(path)).toBeError('UNAUTHORIZED');
      const wrong = app.http().get(path).auth('wrong', { type: 'bearer' });
      expect(await wrong).toBeError('UNAUTHORIZED');
    }
  },
);

it.each(['/pets', '/pets/{petId}', '/pets/{petId}/toys', '/store', '/store/orders'])(
  '%s is served with the methods of the document, and with no others',
  async (template) => {
    const methods = Object.keys(document.paths[template] ?? {}).map((name) => name.toUpperCase());
    const allowed = methods.includes('GET') ? [...methods, 'HEAD'] : methods;
    const isServed = allowed.length > 0;
    const path = `/v1${template.replace('{petId}', '1')}`;
    const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'];
    for (const method of others.filter((name) => !allowed.includes(name))) {
      const answer = await send(method, path);
      expect(answer).toBeError(
        isServed ? 'METHOD_NOT_ALLOWED' : 'NOT_FOUND',
        `${isServed ? `${method} is not` : 'Nothing is'} served at ${path}.`,
      );
      expect(answer.headers['allow']).toBe(
        isServed ? allowed.toSorted(byName).join(', ') : undefined,
      );
      expect(answer.headers).not.toHaveProperty('sunset');
    }
    expect.hasAssertions();
  },
);

describe('The document', () => {
  it('says that the pet operation is deprecated, since when, and when it ends', () => {
    const operation = operationAt('/pets/{petId}');
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

  it('says that the store orders are experimental', () => {
    const operation = operationAt('/store/orders');
    expect(operation).toMatchObject({ operationId: 'listOrders', 'x-stability': 'experimental' });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });
});
