/*
 * The published operation of store, which returns 501 until a team implements it. `generate -- resource`
 * deletes this file when it replaces the operation; if you implement, move or remove it by hand, change or
 * delete its tests. No other test depends on it: `lifecycle.test.ts` has operations of its own.
 */
import type { OpenAPIObject } from '@nestjs/swagger';
import { startApp, type TestApp } from './support/app.js';
import { setSystemTime } from './support/clock.js';
import { matchers } from './support/matchers.js';
import { expectNotFound, expectOnlyMethods } from './support/routes.js';

const { jest } = import.meta;
expect.extend(matchers);

const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const BEFORE_SUNSET = Date.UTC(2026, 11, 24);

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
beforeEach(() => setSystemTime(BEFORE_SUNSET));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

describe('GET /v1/store/orders', () => {
  it.each([BEFORE_SUNSET, SUNSET_INSTANT])('returns 501 and has no sunset: %s', async (time) => {
    setSystemTime(time);
    const response = await app.send('GET', '/v1/store/orders');
    expect(response).toBeError('NOT_IMPLEMENTED', 'Not implemented.');
    expect(response.headers).not.toHaveProperty('deprecation');
    expect(response.headers).not.toHaveProperty('sunset');
  });

  it('is experimental in the OpenAPI document', async () => {
    const { paths } = (await app.send('GET', '/openapi.json')).json<OpenAPIObject>();
    const operation = paths['/store/orders']!.get!;
    expect(operation).toMatchObject({ operationId: 'listOrders', 'x-stability': 'experimental' });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });

  it('supports only GET and HEAD', async () => {
    expect.hasAssertions();
    await expectOnlyMethods(app, '/v1/store/orders', 'GET, HEAD');
  });

  it('is the only one: /v1/store does not exist', async () => {
    expect.hasAssertions();
    await expectNotFound(app, '/v1/store');
  });
});
