/*
 * The published operation of pets, which returns 501 until a team implements it. `generate -- resource`
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

const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';
const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const BEFORE_SUNSET = Date.UTC(2026, 11, 24);

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
beforeEach(() => setSystemTime(BEFORE_SUNSET));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

describe('GET /v1/pets/{petId}', () => {
  const HEADERS = { deprecation: '@1793491200', sunset: SUNSET };

  it.each(['/v1/pets/1', '/v1/pets/1?x=y', '/v1/pets/any%20thing'])(
    'returns 501 with the Deprecation and Sunset headers: %s',
    async (path) => {
      const response = await app.send('GET', path);
      expect(response).toBeError('NOT_IMPLEMENTED', 'Not implemented.');
      expect(response.headers).toMatchObject(HEADERS);
      const head = await app.send('HEAD', path);
      expect(head.status).toBe(501);
      expect(head.body).toHaveLength(0);
      expect(head.headers).toMatchObject(HEADERS);
    },
  );

  it('returns 410 from the sunset on', async () => {
    setSystemTime(SUNSET_INSTANT - 1);
    expect((await app.send('GET', '/v1/pets/1')).status).toBe(501);
    setSystemTime(SUNSET_INSTANT);
    const response = await app.send('GET', '/v1/pets/1');
    expect(response).toBeError('GONE', new RegExp(SUNSET));
    expect(response.headers).toMatchObject(HEADERS);
  });

  it('is deprecated in the OpenAPI document, with its dates', async () => {
    const { paths } = (await app.send('GET', '/openapi.json')).json<OpenAPIObject>();
    const operation = paths['/pets/{petId}']!.get!;
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

  it('supports only GET and HEAD', async () => {
    expect.hasAssertions();
    await expectOnlyMethods(app, '/v1/pets/1', 'GET, HEAD');
  });

  it.each(['/v1/pets', '/v1/pets/1/toys'])('is the only one: %s does not exist', async (path) => {
    expect.hasAssertions();
    await expectNotFound(app, path);
  });
});
