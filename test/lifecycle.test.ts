import type { OpenAPIObject } from '@nestjs/swagger';
import {
  type IsoDate,
  Deprecated,
  getDeprecation,
  Stability,
} from '../src/platform/lifecycle/lifecycle.decorators.js';
import { FEATURES } from '../src/features.js';
import { startApp, type TestApp } from './support/app.js';
import { setSystemTime } from './support/clock.js';
import { sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;
expect.extend(matchers);

const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';
const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const BEFORE_SUNSET = Date.UTC(2026, 11, 24);
const HEADERS = { deprecation: `@${Date.UTC(2026, 10, 1) / 1000}`, sunset: SUNSET };

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ features: [StubsModule, ...FEATURES] });
});
beforeEach(() => setSystemTime(BEFORE_SUNSET));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

describe('a deprecated operation', () => {
  it.each(['GET', 'HEAD'])('sends the Deprecation and Sunset headers: %s', async (method) => {
    const response = await app.send(method, '/v1/stubs/deprecated/any%20thing?x=y');
    expect(response.status).toBe(501);
    expect(response.headers).toMatchObject(HEADERS);
  });

  it('is available until the last millisecond before the sunset', async () => {
    setSystemTime(SUNSET_INSTANT - 1);
    expect((await app.send('GET', '/v1/stubs/deprecated/1')).status).toBe(501);
  });

  it.each([
    ['at the sunset', SUNSET_INSTANT],
    ['a year later', SUNSET_INSTANT + 365 * 86_400_000],
  ])('returns 410 with the sunset date %s', async (_when, time) => {
    setSystemTime(time);
    const response = await app.send('GET', '/v1/stubs/deprecated/1');
    expect(response).toBeError('GONE', new RegExp(SUNSET));
    expect(response.headers).toMatchObject(HEADERS);
  });

  it.each([
    ['before the sunset', BEFORE_SUNSET],
    ['after the sunset', SUNSET_INSTANT + 1],
  ])('requires a key %s', async (_when, time) => {
    setSystemTime(time);
    const response = await app.send('GET', '/v1/stubs/deprecated/1', 'wrong');
    expect(response).toBeError('UNAUTHORIZED');
    expect(await sendRequest(`${app.url}/v1/stubs/deprecated/1`)).toBeError('UNAUTHORIZED');
  });
});

describe('an operation that is not deprecated', () => {
  it.each([
    ['GET', '/v1/categories', 200],
    ['POST', '/v1/categories', 400],
    ['GET', '/v1/stubs/experimental', 501],
    ['POST', '/v1/stubs/deprecated/1', 405],
    ['GET', '/v1/unknown', 404],
    ['GET', '/docs', 200],
  ])('sends no lifecycle headers and has no sunset: %s %s', async (method, path, status) => {
    setSystemTime(SUNSET_INSTANT);
    const response = await app.send(method, path);
    expect(response.status).toBe(status);
    expect(response.headers['deprecation']).toBeUndefined();
    expect(response.headers['sunset']).toBeUndefined();
  });
});

describe('the OpenAPI document', () => {
  let document: OpenAPIObject;
  beforeAll(async () => {
    document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
  });

  it('marks an operation as deprecated, with its dates', () => {
    const operation = document.paths['/stubs/deprecated/{id}']!.get!;
    expect(operation).toMatchObject({
      operationId: 'getDeprecated',
      deprecated: true,
      'x-deprecated-since': '2026-11-01',
      'x-sunset': '2027-11-01',
    });
    expect(operation).not.toHaveProperty('x-stability');
    expect(operation.description).toMatch(/\*\*Deprecated\*\* since 2026-11-01\./);
    expect(operation.description).toMatch(/\*\*Sunset\*\* on 2027-11-01: .*410/);
  });

  it('marks an operation as experimental', () => {
    const operation = document.paths['/stubs/experimental']!.get!;
    expect(operation).toMatchObject({
      operationId: 'listExperimental',
      'x-stability': 'experimental',
    });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });
});

/** Applies a decorator to the method of a controller and returns the method. */
function declareOperation(decorator: MethodDecorator): object {
  class Controller {
    operation(): void {}
  }
  const { prototype } = Controller;
  decorator(prototype, 'operation', Object.getOwnPropertyDescriptor(prototype, 'operation')!);
  return Object.getOwnPropertyDescriptor(prototype, 'operation')!.value as object;
}

/** Returns the `x-` properties that the OpenAPI document will contain. */
const getExtensions = (handler: object): unknown =>
  Reflect.getMetadata('swagger/apiExtension', handler);

describe('@Deprecated', () => {
  it.each<[string, IsoDate | undefined, object, object]>([
    [
      'with a sunset',
      '2024-03-01',
      { sunsetAt: Date.UTC(2024, 2, 1), sunset: 'Fri, 01 Mar 2024 00:00:00 GMT' },
      { 'x-sunset': '2024-03-01' },
    ],
    ['without a sunset', undefined, { sunsetAt: Infinity, sunset: undefined }, {}],
  ])('sets the values of RFC 9745 and RFC 8594 %s', (_name, sunset, values, extensions) => {
    const since = '2024-02-29';
    const handler = declareOperation(Deprecated({ since, ...(sunset && { sunset }) }));
    expect(getDeprecation(handler)).toEqual({ deprecation: '@1709164800', ...values });
    expect(getExtensions(handler)).toEqual({ 'x-deprecated-since': since, ...extensions });
  });

  it.each<[IsoDate, string | undefined, RegExp]>([
    ['2026-11-02', '2026-11-01', /later than the deprecation/],
    ['2026-11-01', '2026-11-01', /later than the deprecation/],
    ['2026-02-30', '2027-01-01', /2026-02-30 is not a valid date/],
    ['2026-01-01', '2026-02-30', /2026-02-30 is not a valid date/],
    ['2027-02-29', undefined, /not a valid date/],
    ['2026-1-01', undefined, /not a valid date/],
    ['26-01-01', undefined, /not a valid date/],
    ['2026-01-0.1', undefined, /not a valid date/],
    ['2026-01-01', 'later', /later is not a valid date/],
    ['2026-01-01', '', /not a valid date/],
  ])('rejects the dates %s and %s at startup', (since, sunset, message) => {
    const dates = { since, ...(sunset === undefined ? {} : { sunset: sunset as IsoDate }) };
    expect(() => Deprecated(dates)).toThrow(RangeError);
    expect(() => Deprecated(dates)).toThrow(message);
  });
});

describe('@Stability', () => {
  it.each(['experimental', 'beta'] as const)('marks an operation as %s', (stability) => {
    const handler = declareOperation(Stability(stability));
    expect(getExtensions(handler)).toEqual({ 'x-stability': stability });
    expect(getDeprecation(handler)).toBeUndefined();
  });
});
