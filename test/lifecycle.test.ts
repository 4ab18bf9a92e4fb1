import { applyDecorators } from '@nestjs/common';
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
  it.each([
    '/v1/stubs/deprecated/1',
    '/v1/stubs/deprecated/any%20thing',
    '/v1/stubs/deprecated/1?x=y',
  ])('sends the Deprecation and Sunset headers: %s', async (path) => {
    const response = await app.send('GET', path);
    expect(response).toBeError('NOT_IMPLEMENTED');
    expect(response.headers).toMatchObject(HEADERS);
  });

  it('sends the headers in the response to HEAD, too', async () => {
    const response = await app.send('HEAD', '/v1/stubs/deprecated/1');
    expect(response.status).toBe(501);
    expect(response.body).toHaveLength(0);
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
    ['DELETE', '/v1/categories', 405],
    ['GET', '/v1/stubs/experimental', 501],
    ['POST', '/v1/stubs/deprecated/1', 405],
    ['GET', '/v1/stubs/deprecated', 404],
    ['GET', '/v1/unknown', 404],
    ['GET', '/livez', 200],
    ['GET', '/readyz', 200],
    ['GET', '/docs', 200],
    ['GET', '/openapi.json', 200],
  ])('sends no lifecycle headers and has no sunset: %s %s', async (method, path, status) => {
    setSystemTime(SUNSET_INSTANT);
    const response = await app.send(method, path);
    expect(response.status).toBe(status);
    expect(response.headers['deprecation']).toBeUndefined();
    expect(response.headers['sunset']).toBeUndefined();
  });

  it('has no sunset: POST /v1/categories with a valid body', async () => {
    setSystemTime(SUNSET_INSTANT);
    const response = await app.categories.create('dog');
    expect(response.status).toBe(201);
    expect(response.headers['deprecation']).toBeUndefined();
    expect(response.headers['sunset']).toBeUndefined();
  });
});

describe('an experimental operation', () => {
  it('requires a key and returns 501', async () => {
    expect(await app.send('GET', '/v1/stubs/experimental', 'wrong')).toBeError('UNAUTHORIZED');
    expect(await app.send('GET', '/v1/stubs/experimental')).toBeError('NOT_IMPLEMENTED');
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

  it('has no lifecycle notes on the category operations', () => {
    const { get, post } = document.paths['/categories']!;
    for (const operation of [get!, post!]) {
      expect(operation.operationId).toMatch(/Categor(y|ies)$/);
      for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since', 'x-stability'])
        expect(operation).not.toHaveProperty(property);
      expect(operation.description).not.toMatch(/deprecated|sunset|stability/i);
    }
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
  it('sets the values of the RFC 9745 and RFC 8594 headers and of the OpenAPI properties', () => {
    const handler = declareOperation(Deprecated({ since: '2024-02-29', sunset: '2024-03-01' }));
    expect(getDeprecation(handler)).toEqual({
      deprecation: '@1709164800',
      sunsetAt: Date.UTC(2024, 2, 1),
      sunset: 'Fri, 01 Mar 2024 00:00:00 GMT',
    });
    expect(getExtensions(handler)).toEqual({
      'x-deprecated-since': '2024-02-29',
      'x-sunset': '2024-03-01',
    });
  });

  it('accepts a deprecation without a sunset', () => {
    const handler = declareOperation(Deprecated({ since: '2024-02-29' }));
    expect(getDeprecation(handler)).toEqual({
      deprecation: '@1709164800',
      sunsetAt: Infinity,
      sunset: undefined,
    });
    expect(getExtensions(handler)).toEqual({ 'x-deprecated-since': '2024-02-29' });
  });

  it.each<[string, IsoDate, IsoDate | undefined, RegExp]>([
    ['a sunset before the deprecation', '2026-11-02', '2026-11-01', /later than the deprecation/],
    ['a sunset on the day of the deprecation', '2026-11-01', '2026-11-01', /later than the/],
    ['a deprecation on 30 February', '2026-02-30', '2027-01-01', /2026-02-30 is not a valid date/],
    ['a sunset on 30 February', '2026-01-01', '2026-02-30', /2026-02-30 is not a valid date/],
    ['29 February in a common year', '2027-02-29', undefined, /not a valid date/],
    ['a 13th month', '2026-13-01', undefined, /not a valid date/],
    ['the day 0', '2026-01-00', undefined, /not a valid date/],
    ['a one-digit month', '2026-1-01', undefined, /not a valid date/],
    ['a one-digit day', '2026-01-1', undefined, /not a valid date/],
    ['a two-digit year', '26-01-01', undefined, /not a valid date/],
    ['a fractional day', '2026-01-0.1', undefined, /not a valid date/],
    ['garbage', 'soon' as IsoDate, undefined, /soon is not a valid date/],
    ['an empty string', '' as IsoDate, undefined, /not a valid date/],
    ['a date with a time', '2026-01-01T00:00:00Z' as IsoDate, undefined, /not a valid date/],
    ['a garbage sunset', '2026-01-01', 'later' as IsoDate, /later is not a valid date/],
    ['an empty sunset', '2026-01-01', '' as IsoDate, /not a valid date/],
  ])('rejects %s at startup', (_name, since, sunset, message) => {
    const declare = (): unknown =>
      Deprecated({ since, ...(sunset === undefined ? {} : { sunset }) });
    expect(declare).toThrow(RangeError);
    expect(declare).toThrow(message);
  });
});

describe('@Stability', () => {
  it.each(['experimental', 'beta'] as const)('marks an operation as %s', (stability) => {
    const handler = declareOperation(Stability(stability));
    expect(getExtensions(handler)).toEqual({ 'x-stability': stability });
    expect(getDeprecation(handler)).toBeUndefined();
  });

  it('can be combined with @Deprecated', () => {
    const handler = declareOperation(
      applyDecorators(Deprecated({ since: '2026-01-01', sunset: '2026-02-01' }), Stability('beta')),
    );
    expect(getExtensions(handler)).toEqual({
      'x-deprecated-since': '2026-01-01',
      'x-sunset': '2026-02-01',
      'x-stability': 'beta',
    });
  });
});
