import { useApp } from '../support/app.js';
import { sendRequest } from '../support/http-client.js';
import { type RawRequest, rawRequest, sendRaw } from '../support/raw-connection.js';

const API_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const ORIGIN = 'https://app.example';
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
  const close = [`Origin: ${ORIGIN}`, 'Connection: close'];
  it.each<[number, string, RawRequest]>([
    [401, 'a request without a key', { headers: close }],
    [405, 'another method', { method: 'OPTIONS', headers: close }],
    [404, 'an unknown path', { target: '/nothing', headers: close }],
    [200, 'a health check', { target: '/livez', headers: close }],
    [200, 'a request for the OpenAPI document', { target: '/openapi.json', headers: close }],
    [405, 'a CONNECT request', { method: 'CONNECT', target: 'petstore:80' }],
    [400, 'garbage', { method: 'garbage', target: '' }],
  ])(
    'contains the security headers, and neither names the framework nor allows an origin: %d to %s',
    async (status, _name, request) => {
      const [response] = await sendRaw(app.url, rawRequest(request));
      expect(response).toMatchObject({ status, headers: API_HEADERS });
      // Pages of any origin may read the OpenAPI document.
      const isDocument = request.target === '/openapi.json';
      const expected = isDocument ? ['access-control-allow-origin'] : [];
      expect(findDisclosures(response!)).toEqual(expected);
      // RFC 6797, section 7.2, forbids the header over HTTP.
      expect(response!.headers).not.toHaveProperty('strict-transport-security');
    },
  );

  it('contains Strict-Transport-Security once if PUBLIC_BASE_URL uses HTTPS', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs', '/docs/swagger-ui.css']) {
      const { headers } = await sendRequest(secure.url + path);
      // Node joins the values of a header that is sent repeatedly.
      expect([path, headers['strict-transport-security']]).toEqual([path, 'max-age=31536000']);
    }
  });
});

describe('CORS', () => {
  const cors = useApp({ config: { corsOrigins: [ORIGIN, 'https://other.example'] } });

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
      const { headers, status } = await sendRequest(secure.url + path, {
        headers: { origin: ORIGIN },
      });
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
