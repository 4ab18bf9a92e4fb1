import {
  Deprecated,
  type IsoDate,
} from '../../../src/platform/deprecation/deprecation.decorators.js';
import { FEATURES } from '../../../src/features.js';
import { useApp } from '../support/app.js';
import { setSystemTime } from '../support/clock.js';
import { sendRequest } from '../support/http-client.js';
import { StubsModule } from '../support/stubs.module.js';

const { jest } = import.meta;
const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';
const SUNSET_INSTANT = Date.UTC(2027, 10, 1);
const HEADERS = { deprecation: `@${Date.UTC(2026, 10, 1) / 1000}`, sunset: SUNSET };

const app = useApp({ features: [StubsModule, ...FEATURES] });
afterEach(() => jest.restoreAllMocks());

describe('a deprecated operation', () => {
  it.each([
    ['501 before the sunset', SUNSET_INSTANT - 1, 'NOT_IMPLEMENTED'],
    ['410 from the sunset on', SUNSET_INSTANT, 'GONE'],
  ] as const)(
    'returns %s, with its dates, which other operations lack, and 401 without a key',
    async (_when, time, code) => {
      setSystemTime(time);
      const path = '/v1/stubs/deprecated/any%20thing?x=y';
      const response = await app.send('GET', path);
      expect(response).toBeError(code, code === 'GONE' ? new RegExp(SUNSET) : undefined);
      for (const { headers } of [response, await app.send('HEAD', path)])
        expect(headers).toMatchObject(HEADERS);
      expect(await app.send('GET', path, { key: 'wrong' })).toBeError('UNAUTHORIZED');
      const withoutKey = await sendRequest(app.url + path);
      expect(withoutKey).toBeError('UNAUTHORIZED');
      const other = await app.send('GET', '/v1/stubs/experimental');
      expect(other.status).toBe(501);
      for (const { headers } of [withoutKey, other])
        for (const name of Object.keys(HEADERS)) expect(headers).not.toHaveProperty(name);
    },
  );
});

describe('the OpenAPI document', () => {
  it('marks an operation as deprecated, with its dates, or as experimental, or with its scope', async () => {
    const { paths } = await app.getDocument();
    const deprecated = paths['/stubs/deprecated/{id}']!.get!;
    expect(deprecated).toMatchObject({
      deprecated: true,
      'x-deprecated-since': '2026-11-01',
      'x-sunset': '2027-11-01',
      description: expect.stringMatching(/Deprecated\*\* since 2026-11-01.*\*\*Sunset/s) as string,
    });
    expect(deprecated).not.toHaveProperty('x-stability');
    const experimental = paths['/stubs/experimental']!.get!;
    expect(experimental).toMatchObject({
      'x-stability': 'experimental',
      description: expect.stringContaining('**Stability: experimental.**') as string,
    });
    expect(paths['/stubs/{order-id}:append']!.post).toMatchObject({
      'x-required-scope': 'read',
      description: 'Requires the scope `read`.',
    });
    expect(Object.keys(experimental).join()).not.toMatch(/deprecated|sunset/);
  });
});

describe('@Deprecated', () => {
  it.each<[IsoDate, IsoDate, RegExp]>([
    ['2026-11-01', '2026-11-01', /later than the deprecation/],
    ['2026-02-30', '2027-01-01', /2026-02-30 is not a valid date/],
    ['2026-01-01', '2026-02-30', /2026-02-30 is not a valid date/],
    ['2026-1-01', '2027-01-01', /not a valid date/],
  ])('rejects the dates %s and %s at startup', (since, sunset, message) => {
    expect(() => Deprecated({ since, sunset })).toThrow(RangeError);
    expect(() => Deprecated({ since, sunset })).toThrow(message);
    expect(() => Deprecated({ since: '2024-02-29' })).not.toThrow();
  });
});
