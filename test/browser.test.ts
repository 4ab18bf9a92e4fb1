/** What docs/clients.md says about browsers. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium, type Page } from 'playwright-core';
import { startApp, type TestApp } from './support/app.js';
import { chromiumPath } from './support/chromium.js';

// The browser is slow while other tests run in parallel.
import.meta.jest.setTimeout(180_000);

/** The headers that scripts can read, as in docs/clients.md; only a header that was sent can be read. */
const READABLE = ['cache-control', 'content-type', 'etag', 'x-request-id'];

const describeIfChromium = chromiumPath === undefined ? describe.skip : describe;
if (chromiumPath === undefined) {
  process.stderr.write('Skipped: a page in Chromium. Install Chromium or set CHROME_PATH.\n');
}

describeIfChromium('a page of another origin in Chromium', () => {
  let browser: Browser;
  /** Serves an empty page. */
  let site: Server;
  let origin: string;
  let app: TestApp;
  let page: Page;
  /** The method, the If-None-Match and the status of each request to the service. */
  let requests: [string, string | undefined, number][];
  beforeAll(async () => {
    site = createServer((_request, response) =>
      response.setHeader('Content-Type', 'text/html').end('<!doctype html>'),
    ).listen(0, '127.0.0.1');
    await once(site, 'listening');
    origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    browser = await chromium.launch({ executablePath: chromiumPath! });
  });
  afterAll(async () => {
    await browser?.close();
    site.close();
    site.closeAllConnections();
  });
  afterEach(async () => {
    await page.close();
    await app.stop();
  });

  async function open(corsOrigins: readonly string[]): Promise<void> {
    app = await startApp({ config: { corsOrigins } });
    requests = [];
    app.server.on('request', (request, response) => {
      response.once('finish', () =>
        requests.push([request.method!, request.headers['if-none-match'], response.statusCode]),
      );
    });
    page = await browser.newPage();
    await page.goto(origin);
  }

  /** Lists the categories as a script of the page: the status and the headers that it can read, or the error. */
  const list = (headers: Record<string, string> = {}): Promise<unknown> =>
    page.evaluate(`fetch(${JSON.stringify(`${app.url}/v1/categories`)}, {
      headers: ${JSON.stringify({ Authorization: `Bearer ${app.key}`, ...headers })},
    }).then(
      async (response) => ({
        status: response.status,
        body: await response.text(),
        headers: Object.fromEntries(response.headers),
      }),
      (error) => error.name,
    )`);

  it('revalidates a list by itself, after one preflight', async () => {
    await open([origin]);
    const first = (await list()) as { headers: { etag: string } };
    expect(first).toMatchObject({ status: 200, body: '[]' });
    const { etag } = first.headers;
    expect(await list()).toMatchObject({ status: 200, body: '[]', headers: { etag } });
    expect(requests).toEqual([
      ['OPTIONS', undefined, 204],
      ['GET', undefined, 200],
      ['GET', etag, 304],
    ]);
  });

  it('gets a 304 if its script sends If-None-Match', async () => {
    await open([origin]);
    const { headers } = (await list()) as { headers: { etag: string } };
    expect(await list({ 'If-None-Match': headers.etag })).toMatchObject({ status: 304, body: '' });
  });

  it('can read only the documented headers', async () => {
    await open([origin]);
    const { headers } = (await list()) as { headers: Record<string, string> };
    expect(
      Object.keys(headers)
        .filter((name) => name !== 'content-length')
        .toSorted(),
    ).toEqual(READABLE);
  });

  it('cannot call the service if CORS_ORIGINS does not list its origin', async () => {
    await open(['https://app.example']);
    expect(await list()).toBe('TypeError');
    expect(requests.map(([method]) => method)).toEqual(['OPTIONS']);
  });
});
