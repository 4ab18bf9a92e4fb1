import type { OutgoingHttpHeaders } from 'node:http';
import { startApp, type TestApp } from './support/app.js';
import { type HttpResponse, sendRequest } from './support/http-client.js';
import { RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';

const API_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const PUBLIC_BASE_URL = 'https://api.pets.example/shop/v1';
const STAGING_BASE_URL = 'https://staging.pets.example/v1';

let app: TestApp;
let secure: TestApp;
beforeAll(async () => {
  app = await startApp();
  secure = await startApp({
    config: { publicBaseUrl: PUBLIC_BASE_URL, stagingBaseUrl: STAGING_BASE_URL },
  });
});
afterAll(async () => {
  await app.stop();
  await secure.stop();
});

const get = (path: string, headers: OutgoingHttpHeaders = {}): Promise<HttpResponse> =>
  sendRequest(app.url + path, { headers });

/** Returns the names of headers that reveal the framework or allow cross-origin access. */
function findDisclosures({ headers }: { readonly headers: object }): string[] {
  return Object.keys(headers).filter((name) =>
    /^(server|via|x-powered-by|x-aspnet.*|access-control-.*)$/.test(name),
  );
}

describe('security headers', () => {
  it.each([
    ['GET', '/v1/categories', 200],
    ['HEAD', '/v1/categories', 200],
    ['POST', '/v1/categories', 400],
    ['OPTIONS', '/v1/categories', 405],
    ['GET', '/nothing', 404],
    ['GET', '/livez', 200],
    ['GET', '/openapi.json', 200],
  ])('are sent, without revealing the framework: %s %s', async (method, path, status) => {
    const response = await app.send(method, path);
    expect(response.status).toBe(status);
    expect(response.headers).toMatchObject(API_HEADERS);
    // Any page may read the document.
    const expected = path === '/openapi.json' ? ['access-control-allow-origin'] : [];
    expect(findDisclosures(response)).toEqual(expected);
    // RFC 6797, section 7.2, forbids it over HTTP.
    expect(response.headers).not.toHaveProperty('strict-transport-security');
  });

  it.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['headers that are too large', rawRequest({ headers: [`X: ${'x'.repeat(20_000)}`] })],
    ['a CONNECT request', rawRequest({ method: 'CONNECT', target: 'petstore:80' })],
    ['a request without a Host', rawRequest({ host: false, headers: ['Connection: close'] })],
    ['an unsupported Expect', rawRequest({ headers: ['Expect: cake', 'Connection: close'] })],
    ['a request without a key', rawRequest({ headers: ['Connection: close'] })],
  ])('are sent in the error response to %s', async (_name, bytes) => {
    const [response] = await sendRaw(app.url, bytes);
    expect(response!.status).toBeGreaterThanOrEqual(400);
    expect(response!.headers).toMatchObject(API_HEADERS);
    expect(findDisclosures(response!)).toEqual([]);
  });

  it('include Strict-Transport-Security if PUBLIC_BASE_URL uses HTTPS', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs', '/docs/swagger-ui.css']) {
      const { headers } = await sendRequest(secure.url + path);
      expect([path, headers['strict-transport-security']]).toEqual([path, 'max-age=31536000']);
    }
  });

  it('are sent once each', async () => {
    const connection = await RawConnection.open(secure.url);
    try {
      connection.send(rawRequest({ target: '/docs' }));
      await connection.nextResponse();
      for (const name of [
        'content-security-policy',
        'strict-transport-security',
        'x-content-type-options',
      ])
        expect(connection.received.toLowerCase().split(`\r\n${name}:`)).toHaveLength(2);
    } finally {
      connection.close();
    }
  });
});

describe('CORS', () => {
  const ORIGIN = 'https://app.example';

  it('is disabled by default', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs']) {
      const response = await get(path, { Origin: ORIGIN });
      expect(findDisclosures(response)).toEqual([]);
    }
  });

  it('varies every response by Origin, so that a cache does not serve it to another origin', async () => {
    const cors = await startApp({ config: { corsOrigins: [ORIGIN, 'https://other.example'] } });
    try {
      const list = await cors.categories.list({ origin: ORIGIN });
      const unchanged = await cors.categories.list({
        origin: ORIGIN,
        'if-none-match': list.headers.etag!,
      });
      const error = await sendRequest(`${cors.url}/v1/categories`, { headers: { origin: ORIGIN } });
      expect([list, unchanged, error].map(({ status }) => status)).toEqual([200, 304, 401]);
      for (const { headers } of [list, unchanged, error])
        expect(headers.vary).toMatch(/\bOrigin\b/);
    } finally {
      await cors.stop();
    }
  });

  it('allows only the origins in CORS_ORIGINS', async () => {
    const cors = await startApp({ config: { corsOrigins: [ORIGIN] } });
    try {
      const getAllowedOrigin = async (origin: string): Promise<string | undefined> => {
        const { headers } = await cors.categories.list({ origin });
        expect(headers).not.toHaveProperty('access-control-allow-credentials');
        return headers['access-control-allow-origin'];
      };
      expect(await getAllowedOrigin(ORIGIN)).toBe(ORIGIN);
      for (const origin of ['https://evil.example', `${ORIGIN}.evil.example`, 'null'])
        expect([origin, await getAllowedOrigin(origin)]).toEqual([origin, undefined]);
    } finally {
      await cors.stop();
    }
  });
});

describe('Swagger UI', () => {
  it.each([
    '/docs',
    '/docs/',
    '/docs/index.html',
    '/docs/swagger-ui-init.js',
    '/docs/swagger-ui.css',
  ])('has a Content-Security-Policy that blocks external and inline scripts: %s', async (path) => {
    const { headers, status } = await sendRequest(secure.url + path);
    expect(status).toBe(200);
    const policy = Object.fromEntries(
      String(headers['content-security-policy'])
        .split(';')
        .map((directive) => {
          const [name, ...sources] = directive.trim().split(' ');
          return [name, sources];
        }),
    ) as Record<string, string[]>;
    expect(policy).toMatchObject({
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'base-uri': ["'none'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
      'connect-src': ["'self'", new URL(PUBLIC_BASE_URL).origin, new URL(STAGING_BASE_URL).origin],
    });
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'cross-origin-resource-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
    });
    expect(headers).not.toHaveProperty('x-powered-by');
  });
});
