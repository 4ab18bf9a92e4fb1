import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Response } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';

/** As in swagger-ui.sqlite.test.ts. */
const CHROMIUM =
  process.env['CHROME_PATH'] ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
    existsSync(path),
  );

const STRICT = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};
const PUBLIC = 'https://api.pets.example/shop/v1';
const STAGING = 'https://staging.pets.example/v1';

let app: TestApp;
let secure: TestApp;
beforeAll(async () => {
  app = await startApp();
  secure = await startApp({ config: { publicBaseUrl: PUBLIC, stagingBaseUrl: STAGING } });
});
afterAll(async () => {
  await app.stop();
  await secure.stop();
});

/** What an answer says of the framework behind it, and of who may read it. */
function banners({ headers }: Pick<Response, 'headers'>): string[] {
  return Object.keys(headers).filter((name) =>
    /^(server|via|x-powered-by|x-aspnet.*|access-control-.*)$/.test(name),
  );
}

describe('Every answer', () => {
  it.each([
    ['a list', 200, () => app.http().get('/v1/categories').auth(app.key, { type: 'bearer' })],
    [
      'a create',
      201,
      () =>
        app.http().post('/v1/categories').auth(app.key, { type: 'bearer' }).send({ name: 'dog' }),
    ],
    ['a refusal', 401, () => app.http().get('/v1/categories')],
    ['an unknown path', 404, () => app.http().get('/nothing')],
    [
      'a body that is wrong',
      400,
      () => app.http().post('/v1/categories').auth(app.key, { type: 'bearer' }).send([]),
    ],
    ['the health of the service', 200, () => app.http().get('/livez')],
    ['the document', 200, () => app.http().get('/openapi.json')],
    [
      'a preflight',
      401,
      () =>
        app
          .http()
          .options('/v1/categories')
          .set('Origin', 'https://evil.example')
          .set('Access-Control-Request-Method', 'GET'),
    ],
  ])('has them, and names no framework: %s', async (_name, status, send) => {
    const response = await send();
    expect(response.status).toBe(status);
    expect(response.headers).toMatchObject(STRICT);
    expect(banners(response)).toEqual([]);
    // Over HTTP it is forbidden.
    expect(response.headers).not.toHaveProperty('strict-transport-security');
  });

  it.each([
    ['no HTTP at all', 'nonsense\r\n\r\n'],
    ['headers that are too large', rawRequest({ headers: [`X: ${'x'.repeat(20_000)}`] })],
    ['a CONNECT', rawRequest({ method: 'CONNECT', target: 'petstore:80' })],
    ['no Host', rawRequest({ host: false, headers: ['Connection: close'] })],
    ['an odd Expect', rawRequest({ headers: ['Expect: cake', 'Connection: close'] })],
  ])('has them where no route is reached: %s', async (_name, bytes) => {
    const [answer] = await sendRaw(app.url, bytes);
    expect(answer!.status).toBeGreaterThanOrEqual(400);
    expect(answer!.headers).toMatchObject(STRICT);
    expect(banners(answer!)).toEqual([]);
  });

  it('keeps browsers to HTTPS where the public address has it', async () => {
    for (const path of ['/v1/categories', '/livez', '/docs', '/docs/swagger-ui.css']) {
      const { headers } = await secure.http().get(path);
      expect([path, headers['strict-transport-security']]).toEqual([path, 'max-age=31536000']);
    }
  });

  it('has each of them once', async () => {
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

describe('A page of another origin', () => {
  const ORIGIN = 'https://app.example';
  it('may read nothing unless configured', async () => {
    for (const path of ['/v1/categories', '/livez', '/openapi.json', '/docs']) {
      const response = await app.http().get(path).set('Origin', ORIGIN);
      expect(banners(response)).toEqual([]);
    }
  });

  it('may read what CORS_ORIGINS allows, and no other may', async () => {
    const open = await startApp({ config: { corsOrigins: [ORIGIN] } });
    try {
      const list = async (origin: string): Promise<string | undefined> => {
        const get = open.http().get('/v1/categories').auth(open.key, { type: 'bearer' });
        const { headers } = await get.set('Origin', origin);
        expect(headers).not.toHaveProperty('access-control-allow-credentials');
        return headers['access-control-allow-origin'];
      };
      expect(await list(ORIGIN)).toBe(ORIGIN);
      for (const origin of ['https://evil.example', `${ORIGIN}.evil.example`, 'null'])
        expect([origin, await list(origin)]).toEqual([origin, undefined]);
    } finally {
      await open.stop();
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
  ])('has a policy of its own, which lets no foreign or inline script run: %s', async (path) => {
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
      'connect-src': ["'self'", new URL(PUBLIC).origin, new URL(STAGING).origin],
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
    const problems: string[] = [];
    const foreign: string[] = [];
    beforeAll(async () => {
      browser = await chromium.launch({
        executablePath: CHROMIUM!,
        args: ['--no-sandbox', '--disable-dev-shm-usage'],
      });
      page = await browser.newPage();
      page
        .on('console', (message) => {
          if (['error', 'warning'].includes(message.type())) problems.push(message.text());
        })
        .on('pageerror', (error) => problems.push(String(error)))
        .on('requestfailed', (request) => problems.push(`${request.url()} failed`))
        .on('request', (request) => {
          if (!request.url().startsWith(app.url) && !request.url().startsWith('data:'))
            foreign.push(request.url());
        });
    }, 60_000);
    afterAll(() => browser?.close());

    it('shows the operations, takes a key and sends a request, and nothing is refused', async () => {
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
      const answer = operation.locator('.live-responses-table .response').first();
      await answer.waitFor();
      expect(await answer.locator('.response-col_status').first().innerText()).toMatch(/^201/);
      expect(await answer.innerText()).toContain('from the browser');

      const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
      expect(body).toContainEqual(expect.objectContaining({ name: 'from the browser' }));
      expect(problems).toEqual([]);
      expect(foreign).toEqual([]);
    }, 60_000);

    it('would be told of what the policy refuses', async () => {
      // As texts, which run in the page: nothing here knows its globals.
      await page.evaluate(
        `document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))`,
      );
      expect(await page.evaluate(`'ran' in window`)).toBe(false);
      expect(problems.join()).toMatch(/inline script/);
      expect(
        await page.evaluate(`fetch('https://evil.example/').then(() => 'sent', () => 'refused')`),
      ).toBe('refused');
      expect(problems.join()).toMatch(/connect-src/);
    }, 60_000);
  });
});
