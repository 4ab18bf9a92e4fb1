/*
 * The published operation of store, which returns 501 until a team implements it. `generate -- resource` deletes this file when it
 * replaces the operation; if you implement, move or remove it by hand, change or delete its tests. No other
 * test depends on it: `lifecycle.test.ts` tests deprecation and sunset with other operations.
 */
import type { OpenAPIObject } from '@nestjs/swagger';
import { startApp, type TestApp } from './support/app.js';
import { setSystemTime } from './support/clock.js';
import { type HttpResponse, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';

const { jest } = import.meta;
expect.extend(matchers);

const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const BEFORE_SUNSET = Date.UTC(2026, 11, 24);

const OTHER_METHODS = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'];

let app: TestApp;
let paths: OpenAPIObject['paths'];
beforeAll(async () => {
  app = await startApp();
  ({ paths } = (await sendRequest(`${app.url}/openapi.json`)).json<OpenAPIObject>());
});
beforeEach(() => setSystemTime(BEFORE_SUNSET));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

const send = (method: string, path: string, key = app.key): Promise<HttpResponse> =>
  sendRequest(app.url + path, { method, headers: { authorization: `Bearer ${key}` } });

describe('GET /v1/store/orders', () => {
  it.each([BEFORE_SUNSET, SUNSET_INSTANT])('returns 501 and has no sunset: %s', async (time) => {
    setSystemTime(time);
    const response = await send('GET', '/v1/store/orders');
    expect(response).toBeError('NOT_IMPLEMENTED', 'Not implemented.');
    expect(response.headers).not.toHaveProperty('deprecation');
    expect(response.headers).not.toHaveProperty('sunset');
  });

  it('is experimental in the OpenAPI document', () => {
    const operation = paths['/store/orders']!.get!;
    expect(operation).toMatchObject({ operationId: 'listOrders', 'x-stability': 'experimental' });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });

  it.each(OTHER_METHODS)('does not support %s', async (method) => {
    const response = await send(method, '/v1/store/orders');
    expect(response).toBeError(
      'METHOD_NOT_ALLOWED',
      `Method ${method} is not allowed for /v1/store/orders.`,
    );
    expect(response.headers.allow).toBe('GET, HEAD');
    expect(response.headers).not.toHaveProperty('sunset');
  });

  it.each(['/v1/store'])('is the only one: %s does not exist', async (path) => {
    for (const method of ['GET', ...OTHER_METHODS]) {
      const response = await send(method, path);
      expect(response).toBeError('NOT_FOUND', `Route not found: ${method} ${path}.`);
      expect(response.headers).not.toHaveProperty('allow');
      expect(response.headers).not.toHaveProperty('sunset');
    }
  });
});
