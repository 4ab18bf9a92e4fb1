import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Response } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';

/** The same lookup as in swagger-ui.sqlite.test.ts. */
const CHROMIUM =
  process.env['CHROME_PATH'] ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
    existsSync(path),
  );

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

/** Returns the names of headers that reveal the framework or allow cross-origin access. */
function findDisclosures({ headers }: Pick<Response, 'headers'>): string[] {
  return Object.keys(headers).filter((name) =>
    /^(server|via|x-powered-by|x-aspnet.*|access-control-.*)$/.test(name),
  );
}

describe('security headers', () => {
  it.each([
    [
      'a list request',
      200,
      () => app.http().get('/v1/categories').auth(app.key, { type: 'bearer' }),
    ],
    [
      'a create request',
      201,
      () =>
        app.http().post('/v1/categories').auth(app.key, { type: 'bearer' }).send({ name: 'dog' }),
    ],
    ['a request without a key', 401, () => app.http().get('/v1/categories')],
    ['an unknown path', 404, () => app.http().get('/nothing')],
    [
      'an invalid body',
      400,
      () => app.http().post('/v1/categories').auth(app.key, { type: 'bearer' }).send([]),
    ],
    ['a health check', 200, () => app.http().get('/livez')],
    ['the OpenAPI document', 200, () => app.http().get('/openapi.json')],
    [
      'a CORS preflight',
      405,
      () =>
        app
          .http()
          .options('/v1/categories')
          .set('Origin', 'https://evil.example')
          .set('Access-Control-Request-Method', 'GET'),
    ],
  ])(
    'are sent, without revealing the framework, in the response to %s',
    async (_name, status, send) => {
      const response = await send();
      expect(response.status).toBe(status);
      expect(response.headers).toMatchObject(API_HEADERS);
      expect(findDisclosures(response)).toEqual([]);
      // RFC 6797, section 7.2, forbids it over HTTP.
      expect(response.headers).not.toHaveProperty('strict-transport-security');
    },
  );

  it.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['headers that are too large', rawRequest({ headers: [`X: ${'x'.repeat(20_000)}`] })],
    ['a CONNECT request', rawRequest({ method: 'CONNECT', target: 'petstore:80' })],
    ['a request without a Host', rawRequest({ host: false, headers: ['Connection: close'] })],
    [
      'an unsupported Expect header',
      rawRequest({ headers: ['Expect: cake', 'Connection: close'] }),
    ],
  ])('are sent in the error response to %s', async (_name, bytes) => {
    const [response] = await sendRaw(app.url, bytes);
    expect(response!.status).toBeGreaterThanOrEqual(400);
    expect(response!.headers).toMatchObject(API_HEADERS);
    expect(findDisclosures(response!)).toEqual([]);
  });

  it('include Strict-Transport-Security if PUBLIC_BASE_URL uses HTTPS', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs', '/docs/swagger-ui.css']) {
      const { headers } = await secure.http().get(path);
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
    for (const path of ['/v1/categories', '/livez', '/openapi.json', '/docs']) {
      const response = await app.http().get(path).set('Origin', ORIGIN);
      expect(findDisclosures(response)).toEqual([]);
    }
  });

  it('allows only the origins in CORS_ORIGINS', async () => {
    const cors = await startApp({ config: { corsOrigins: [ORIGIN] } });
    try {
      const getAllowedOrigin = async (origin: string): Promise<string | undefined> => {
        const get = cors.http().get('/v1/categories').auth(cors.key, { type: 'bearer' });
        const { headers } = await get.set('Origin', origin);
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
    const { headers, status } = await secure.http().get(path);
    expect(status).toBe(200);
    const policy = Object.fromEntries(
      headers['content-security-policy']!.split(';').map((directive) => {
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

  const inChromium = CHROMIUM === undefined ? describe.skip : describe;
  inChromium('in Chromium', () => {
    let browser: Browser;
    let page: Page;
    const browserErrors: string[] = [];
    const externalRequests: string[] = [];
    beforeAll(async () => {
      browser = await chromium.launch({
        executablePath: CHROMIUM!,
        args: ['--no-sandbox', '--disable-dev-shm-usage'],
      });
      page = await browser.newPage();
      page
        .on('console', (message) => {
          if (['error', 'warning'].includes(message.type())) browserErrors.push(message.text());
        })
        .on('pageerror', (error) => browserErrors.push(String(error)))
        .on('requestfailed', (request) => browserErrors.push(`${request.url()} failed`))
        .on('request', (request) => {
          if (!request.url().startsWith(app.url) && !request.url().startsWith('data:'))
            externalRequests.push(request.url());
        });
    }, 60_000);
    afterAll(() => browser?.close());

    it('sends a request with a key without violating the Content-Security-Policy', async () => {
      await page.goto(`${app.url}/docs`);
      await page.getByRole('button', { name: 'Authorize' }).click();
      const dialog = page.locator('.modal-ux');
      await dialog.locator('input').fill(app.key);
      await dialog
        .getByRole('button', { name: 'Apply credentials' })
        .or(dialog.locator('button.authorize'))
        .first()
        .click();
      await dialog.locator('.btn-done').click();

      const operation = page.locator('[id$="createCategory"]');
      await operation.locator('button.opblock-summary-control').click();
      await operation.getByRole('button', { name: 'Try it out' }).click();
      await operation.locator('textarea.body-param__text').fill('{"name":"from the browser"}');
      await operation.getByRole('button', { name: 'Execute' }).click();
      const liveResponse = operation.locator('.live-responses-table .response').first();
      await liveResponse.waitFor();
      expect(await liveResponse.locator('.response-col_status').first().innerText()).toMatch(
        /^201/,
      );
      expect(await liveResponse.innerText()).toContain('from the browser');

      const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
      expect(body).toContainEqual(expect.objectContaining({ name: 'from the browser' }));
      expect(browserErrors).toEqual([]);
      expect(externalRequests).toEqual([]);
    }, 60_000);

    it('logs violations of the Content-Security-Policy to the console', async () => {
      // Strings, because TypeScript does not know the globals of the page.
      await page.evaluate(
        `document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))`,
      );
      expect(await page.evaluate(`'ran' in window`)).toBe(false);
      expect(browserErrors.join()).toMatch(/inline script/);
      expect(
        await page.evaluate(`fetch('https://evil.example/').then(() => 'sent', () => 'blocked')`),
      ).toBe('blocked');
      expect(browserErrors.join()).toMatch(/connect-src/);
    }, 60_000);
  });
});
