import { applyDecorators } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import {
  type IsoDate,
  Deprecated,
  getDeprecation,
  Stability,
} from '../src/platform/lifecycle/lifecycle.decorators.js';
import type { TestApp } from './support/app.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { startAppWithModule } from './support/start-app-with-module.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;

const DEPRECATION = '@1793491200';
const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';
const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const BEFORE_SUNSET = Date.UTC(2026, 11, 24);

let app: TestApp;
beforeAll(async () => {
  app = await startAppWithModule(StubsModule);
});
beforeEach(() => moveClock(BEFORE_SUNSET));
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

function moveClock(time: number): void {
  jest.spyOn(Date, 'now').mockReturnValue(time);
}

const send = (
  method: string,
  path: string,
  key: string | undefined = app.key,
): Promise<HttpResponse> =>
  sendRequest(app.url + path, { method, headers: { authorization: `Bearer ${key}` } });
const errorIn = ({ body }: HttpResponse): unknown => JSON.parse(body.toString());

describe('A deprecated operation', () => {
  it.each(['/v1/stubs/ending/1', '/v1/stubs/ending/any%20thing', '/v1/stubs/ending/1?x=y'])(
    'is not specified yet, and says since when it is deprecated and when it ends: %s',
    async (path) => {
      const answer = await send('GET', path);
      expect(answer.status).toBe(501);
      expect(errorIn(answer)).toEqual({
        code: 'NOT_IMPLEMENTED',
        message: expect.any(String),
        status: 501,
      });
      expect(answer.headers['deprecation']).toBe(DEPRECATION);
      expect(answer.headers['sunset']).toBe(SUNSET);
      expect(answer.headers['cache-control']).toBe('no-store');
    },
  );

  it('says so to HEAD too', async () => {
    const answer = await send('HEAD', '/v1/stubs/ending/1');
    expect(answer.status).toBe(501);
    expect(answer.body).toHaveLength(0);
    expect(answer.headers['deprecation']).toBe(DEPRECATION);
    expect(answer.headers['sunset']).toBe(SUNSET);
  });

  it('was deprecated before its sunset, as its headers say', () => {
    expect(Date.UTC(2026, 10, 1) / 1000).toBe(Number(DEPRECATION.slice(1)));
    expect(new Date(SUNSET).getTime()).toBe(SUNSET_INSTANT);
  });

  it('lives until the last millisecond before the sunset', async () => {
    moveClock(SUNSET_INSTANT - 1);
    expect((await send('GET', '/v1/stubs/ending/1')).status).toBe(501);
  });

  it.each([
    ['at the sunset', SUNSET_INSTANT],
    ['a year later', SUNSET_INSTANT + 365 * 86_400_000],
  ])('is gone, and says since when: %s', async (_when, time) => {
    moveClock(time);
    const answer = await send('GET', '/v1/stubs/ending/1');
    expect(answer.status).toBe(410);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    expect(errorIn(answer)).toEqual({
      code: 'GONE',
      message: expect.stringContaining(SUNSET),
      status: 410,
    });
    expect(answer.headers['deprecation']).toBe(DEPRECATION);
    expect(answer.headers['sunset']).toBe(SUNSET);
  });

  it.each([
    ['before the sunset', BEFORE_SUNSET],
    ['after the sunset', SUNSET_INSTANT + 1],
  ])('asks for the key first: %s', async (_when, time) => {
    moveClock(time);
    const answer = await send('GET', '/v1/stubs/ending/1', `pet_${'A'.repeat(43)}`);
    expect(answer.status).toBe(401);
    expect(errorIn(answer)).toEqual({
      code: 'UNAUTHORIZED',
      message: expect.any(String),
      status: 401,
    });
  });
});

describe('Every other operation', () => {
  it.each([
    ['GET', '/v1/categories', 200],
    ['POST', '/v1/categories', 400],
    ['DELETE', '/v1/categories', 405],
    ['GET', '/v1/stubs/new', 501],
    ['POST', '/v1/stubs/ending/1', 405],
    ['GET', '/v1/stubs/ending', 404],
    ['GET', '/v1/unknown', 404],
    ['GET', '/livez', 200],
    ['GET', '/readyz', 200],
    ['GET', '/docs', 200],
    ['GET', '/openapi.json', 200],
  ])('lives on after the sunset, and is not deprecated: %s %s', async (method, path, status) => {
    moveClock(SUNSET_INSTANT);
    const answer = await send(method, path);
    expect(answer.status).toBe(status);
    expect(answer.headers['deprecation']).toBeUndefined();
    expect(answer.headers['sunset']).toBeUndefined();
  });

  it('creates after the sunset', async () => {
    moveClock(SUNSET_INSTANT);
    const answer = await sendRequest(`${app.url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(app.key),
      body: '{"name":"dog"}',
    });
    expect(answer.status).toBe(201);
    expect(answer.headers['deprecation']).toBeUndefined();
    expect(answer.headers['sunset']).toBeUndefined();
  });
});

describe('An experimental operation', () => {
  it('needs a key, and is not specified yet', async () => {
    expect((await send('GET', '/v1/stubs/new', 'wrong')).status).toBe(401);
    const answer = await send('GET', '/v1/stubs/new');
    expect(answer.status).toBe(501);
    expect(errorIn(answer)).toEqual({
      code: 'NOT_IMPLEMENTED',
      message: expect.any(String),
      status: 501,
    });
  });
});

describe('The document', () => {
  let document: OpenAPIObject;
  beforeAll(async () => {
    document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
  });

  it('says that an operation is deprecated, since when, and when it ends', () => {
    const operation = document.paths['/stubs/ending/{id}']!.get!;
    expect(operation).toMatchObject({
      operationId: 'getEnding',
      deprecated: true,
      'x-deprecated-since': '2026-11-01',
      'x-sunset': '2027-11-01',
    });
    expect(operation).not.toHaveProperty('x-stability');
    expect(operation.description).toMatch(/\*\*Deprecated\*\* since 2026-11-01\./);
    expect(operation.description).toMatch(/\*\*Sunset\*\* on 2027-11-01: .*410/);
  });

  it('says that an operation is experimental', () => {
    const operation = document.paths['/stubs/new']!.get!;
    expect(operation).toMatchObject({ operationId: 'listNew', 'x-stability': 'experimental' });
    expect(operation.description).toMatch(/\*\*Stability: experimental\.\*\*/);
    for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since'])
      expect(operation).not.toHaveProperty(property);
  });

  it('says nothing of the kind about the operations on categories', () => {
    const { get, post } = document.paths['/categories']!;
    for (const operation of [get!, post!]) {
      expect(operation.operationId).toMatch(/Categor(y|ies)$/);
      for (const property of ['deprecated', 'x-sunset', 'x-deprecated-since', 'x-stability'])
        expect(operation).not.toHaveProperty(property);
      expect(operation.description).not.toMatch(/deprecated|sunset|stability/i);
    }
  });
});

/** Declares an operation with a decorator, as a controller does. */
function operationWith(decorator: MethodDecorator): object {
  class Controller {
    operation(): void {}
  }
  const { prototype } = Controller;
  decorator(prototype, 'operation', Object.getOwnPropertyDescriptor(prototype, 'operation')!);
  return Object.getOwnPropertyDescriptor(prototype, 'operation')!.value as object;
}

/** What the document will say in `x-` properties. */
const extensionsOf = (handler: object): unknown =>
  Reflect.getMetadata('swagger/apiExtension', handler);

describe('@Deprecated', () => {
  it('gives the headers of RFC 9745 and RFC 8594, and the properties of the document', () => {
    const handler = operationWith(Deprecated({ since: '2024-02-29', sunset: '2024-03-01' }));
    expect(getDeprecation(handler)).toEqual({
      deprecation: '@1709164800',
      endsAt: Date.UTC(2024, 2, 1),
      sunset: 'Fri, 01 Mar 2024 00:00:00 GMT',
    });
    expect(extensionsOf(handler)).toEqual({
      'x-deprecated-since': '2024-02-29',
      'x-sunset': '2024-03-01',
    });
  });

  it('may leave the end open', () => {
    const handler = operationWith(Deprecated({ since: '2024-02-29' }));
    expect(getDeprecation(handler)).toEqual({
      deprecation: '@1709164800',
      endsAt: Infinity,
      sunset: undefined,
    });
    expect(extensionsOf(handler)).toEqual({ 'x-deprecated-since': '2024-02-29' });
  });

  it.each<[string, IsoDate, IsoDate | undefined, RegExp]>([
    ['a sunset before the deprecation', '2026-11-02', '2026-11-01', /later than the deprecation/],
    ['a sunset on the day of the deprecation', '2026-11-01', '2026-11-01', /later than the/],
    ['a deprecation on 30 February', '2026-02-30', '2027-01-01', /2026-02-30 is not a day/],
    ['a sunset on 30 February', '2026-01-01', '2026-02-30', /2026-02-30 is not a day/],
    ['29 February of a common year', '2027-02-29', undefined, /not a day/],
    ['a 13th month', '2026-13-01', undefined, /not a day/],
    ['a day 0', '2026-01-00', undefined, /not a day/],
    ['a month of one digit', '2026-1-01', undefined, /not a day/],
    ['a day of one digit', '2026-01-1', undefined, /not a day/],
    ['a year of two digits', '26-01-01', undefined, /not a day/],
    ['a fraction', '2026-01-0.1', undefined, /not a day/],
    ['garbage', 'soon' as IsoDate, undefined, /soon is not a day/],
    ['an empty text', '' as IsoDate, undefined, /not a day/],
    ['a time of the day', '2026-01-01T00:00:00Z' as IsoDate, undefined, /not a day/],
    ['a garbage sunset', '2026-01-01', 'later' as IsoDate, /later is not a day/],
    ['an empty sunset', '2026-01-01', '' as IsoDate, /not a day/],
  ])('refuses %s at the start', (_what, since, sunset, message) => {
    const declare = (): unknown =>
      Deprecated({ since, ...(sunset === undefined ? {} : { sunset }) });
    expect(declare).toThrow(RangeError);
    expect(declare).toThrow(message);
  });
});

describe('@Stability', () => {
  it.each(['experimental', 'beta'] as const)('marks an operation as %s', (stability) => {
    const handler = operationWith(Stability(stability));
    expect(extensionsOf(handler)).toEqual({ 'x-stability': stability });
    expect(getDeprecation(handler)).toBeUndefined();
  });

  it('goes together with @Deprecated', () => {
    const handler = operationWith(
      applyDecorators(Deprecated({ since: '2026-01-01', sunset: '2026-02-01' }), Stability('beta')),
    );
    expect(extensionsOf(handler)).toEqual({
      'x-deprecated-since': '2026-01-01',
      'x-sunset': '2026-02-01',
      'x-stability': 'beta',
    });
  });
});
