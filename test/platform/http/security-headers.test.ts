import { useApp } from '../support/app.js';
import { sendRequest } from '../support/http-client.js';
import { rawRequest, sendRaw } from '../support/raw-connection.js';

const API_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const PUBLIC_BASE_URL = 'https://api.pets.example/shop/v1';
const STAGING_BASE_URL = 'https://staging.pets.example/v1';

const app = useApp();
const secure = useApp({
  config: { publicBaseUrl: PUBLIC_BASE_URL, stagingBaseUrl: STAGING_BASE_URL },
});

/** Returns the names of headers that reveal the framework or allow cross-origin access. */
const findDisclosures = ({ headers }: { readonly headers: object }): string[] =>
  Object.keys(headers).filter((name) => /^(server|via|x-.*-by|access-control-.*)$/.test(name));

describe('every response', () => {
  it.each([
    ['GET', '/v1/categories', 200],
    ['OPTIONS', '/v1/categories', 405],
    ['GET', '/nothing', 404],
    ['GET', '/livez', 200],
    ['GET', '/openapi.json', 200],
  ])(
    'contains the security headers, and no name of the framework: %s %s',
    async (method, path, status) => {
      const response = await app.send(method, path);
      expect(response.status).toBe(status);
      expect(response.headers).toMatchObject(API_HEADERS);
      // Pages of any origin may read the OpenAPI document.
      const expected = path === '/openapi.json' ? ['access-control-allow-origin'] : [];
      expect(findDisclosures(response)).toEqual(expected);
      // RFC 6797, section 7.2, forbids the header over HTTP.
      expect(response.headers).not.toHaveProperty('strict-transport-security');
    },
  );

  it.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['a CONNECT request', rawRequest({ method: 'CONNECT', target: 'petstore:80' })],
    ['a request without a key', rawRequest({ headers: ['Connection: close'] })],
  ])('contains the security headers also as an error response to %s', async (_name, bytes) => {
    const [response] = await sendRaw(app.url, bytes);
    expect(response!.status).toBeGreaterThanOrEqual(400);
    expect(response!.headers).toMatchObject(API_HEADERS);
    expect(findDisclosures(response!)).toEqual([]);
  });

  it('contains Strict-Transport-Security once if PUBLIC_BASE_URL uses HTTPS', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs', '/docs/swagger-ui.css']) {
      const { headers } = await sendRequest(secure.url + path);
      // Node joins the values of a header that is sent repeatedly.
      expect([path, headers['strict-transport-security']]).toEqual([path, 'max-age=31536000']);
    }
  });
});

describe('CORS', () => {
  const ORIGIN = 'https://app.example';
  const cors = useApp({ config: { corsOrigins: [ORIGIN, 'https://other.example'] } });

  it('allows no origin by default', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs']) {
      const response = await sendRequest(app.url + path, { headers: { Origin: ORIGIN } });
      expect(findDisclosures(response)).toEqual([]);
    }
  });

  it('varies every response by Origin, so that a cache does not serve it to another origin', async () => {
    const list = await cors.categories.list({ origin: ORIGIN });
    const unchanged = { origin: ORIGIN, 'if-none-match': list.headers.etag! };
    const responses = [
      list,
      await cors.categories.list(unchanged),
      await sendRequest(`${cors.url}/v1/categories`, { headers: { origin: ORIGIN } }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([200, 304, 401]);
    for (const { headers } of responses) expect(headers.vary).toMatch(/\bOrigin\b/);
  });

  it.each([
    [ORIGIN, ORIGIN],
    ['https://evil.example', undefined],
    [`${ORIGIN}.evil.example`, undefined],
    ['null', undefined],
  ])('allows only the origins in CORS_ORIGINS: %s', async (origin, allowed) => {
    const { headers } = await cors.categories.list({ origin });
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
    expect(headers['access-control-allow-origin']).toBe(allowed);
  });

  it('allows pages to send a key and conditions, and to read ETags', async () => {
    const { headers } = await sendRequest(`${cors.url}/v1/categories`, {
      method: 'OPTIONS',
      headers: { origin: ORIGIN, 'access-control-request-method': 'PATCH' },
    });
    for (const name of ['Authorization', 'Content-Type', 'If-Match', 'If-None-Match'])
      expect(headers['access-control-allow-headers']!.split(',')).toContain(name);
    expect(headers['access-control-expose-headers']).toMatch(/\bETag\b/);
  });
});

describe('Swagger UI', () => {
  it.each(['/docs', '/docs/', '/docs/index.html', '/docs/swagger-ui.css'])(
    'blocks external and inline scripts by its Content-Security-Policy: %s',
    async (path) => {
      const { headers, status } = await sendRequest(secure.url + path);
      expect(status).toBe(200);
      const origins = [PUBLIC_BASE_URL, STAGING_BASE_URL].map((url) => new URL(url).origin);
      expect(String(headers['content-security-policy']).split(';')).toEqual(
        expect.arrayContaining([
          "default-src 'none'",
          "script-src 'self'",
          "base-uri 'none'",
          "form-action 'none'",
          "frame-ancestors 'none'",
          `connect-src 'self' ${origins.join(' ')}`,
        ]),
      );
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'x-frame-options': 'DENY',
        'cross-origin-resource-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
      });
      expect(findDisclosures({ headers })).toEqual([]);
    },
  );
});
