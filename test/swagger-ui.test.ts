import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { OpenAPIObject } from '@nestjs/swagger';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { startApp, type TestApp } from './support/app.js';

/** The directory for the screenshot, which the README shows as `docs/swagger-ui.png`. */
const RESULTS = join(import.meta.dirname, '..', 'test-results');
const DESKTOP = { viewport: { width: 1280, height: 720 } };
const MOBILE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const INVALID_KEY = 'pet_wrongwrongwrongwrongwrongwrongwrongwrong';
const CHROME_PATHS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];
/** An invalid CHROME_PATH fails the tests instead of skipping them. */
const chrome = process.env['CHROME_PATH'] ?? CHROME_PATHS.find((path) => existsSync(path));

async function authorize(page: Page, key: string): Promise<void> {
  await page.getByRole('button', { name: 'Authorize' }).click();
  const dialog = page.locator('.dialog-ux');
  await dialog.getByRole('textbox').fill(key);
  await dialog.getByRole('button', { name: 'Apply credentials' }).click();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
}

const operation = (page: Page, tag: string, id: string): Locator =>
  page.locator(`#operations-${tag}-${id}`);

/** Expands an operation and enables "Try it out". */
async function tryOut(page: Page, id: string): Promise<Locator> {
  const block = operation(page, 'categories', id);
  await block.locator('.opblock-summary-control').click();
  await block.getByRole('button', { name: 'Try it out' }).click();
  return block;
}

/** Executes an operation and returns the response that the page shows. */
async function execute(block: Locator): Promise<{ status: string; body: unknown }> {
  await block.getByRole('button', { name: 'Execute' }).click();
  const response = block.locator('.live-responses-table .response');
  await response.waitFor();
  const [body] = await response.locator('.highlight-code code').allInnerTexts();
  return {
    status: (await response.locator('.response-col_status').innerText()).trim(),
    body: JSON.parse(body!),
  };
}

/** Returns the serious and critical accessibility violations as `rule: element`. */
async function findAccessibilityViolations(page: Page): Promise<string[]> {
  const { violations, passes } = await new AxeBuilder({ page }).analyze();
  expect(passes.length).toBeGreaterThan(15);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`));
}

// The browser is slow while other tests run in parallel.
import.meta.jest.setTimeout(60_000);

const describeIfChrome = chrome === undefined ? describe.skip : describe;
if (chrome === undefined) {
  process.stderr.write('Skipped: Swagger UI in Chromium. Install Chromium or set CHROME_PATH.\n');
}

describeIfChrome('Swagger UI in Chromium', () => {
  let app: TestApp;
  let browser: Browser;
  let context: BrowserContext | undefined;
  /** Console errors and warnings, exceptions, CSP violations and requests to other origins. */
  let problems: string[];
  beforeAll(async () => {
    app = await startApp();
    browser = await chromium.launch({ executablePath: chrome! });
    await mkdir(RESULTS, { recursive: true });
  });
  afterAll(async () => {
    await browser?.close();
    await app.stop();
  });
  beforeEach(() => {
    problems = [];
  });
  afterEach(async () => {
    await context?.close();
    context = undefined;
    if (problems.length > 0) throw new Error(`The page reported:\n${problems.join('\n')}`);
  });

  /** Opens the page and waits until it shows operations. */
  async function open(options: BrowserContextOptions = DESKTOP): Promise<Page> {
    context = await browser.newContext(options);
    context.setDefaultTimeout(10_000);
    const page = await context.newPage();
    await page.exposeFunction('reportViolation', (text: string) => problems.push(text));
    await page.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
      reportViolation('policy: ' + event.effectiveDirective + ' ' + event.blockedURI));`);
    page.on('pageerror', (error) => problems.push(`exception: ${error.message}`));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) problems.push(message.text());
    });
    page.on('request', (request) => {
      const { protocol, origin } = new URL(request.url());
      if (protocol !== 'data:' && origin !== app.url) problems.push(`request: ${request.url()}`);
    });
    await page.goto(`${app.url}/docs`);
    await page.locator('.opblock').nth(3).waitFor();
    return page;
  }

  it('shows the name of the service, how to get a key, and every operation under its tag', async () => {
    const page = await open();
    expect(await page.title()).toBe('Petstore API');
    const information = page.locator('.information-container');
    expect(await information.getByRole('heading', { level: 1 }).innerText()).toMatch(/^Petstore/);
    const text = await information.innerText();
    expect(text).toContain('npm run keys -- create <name>');
    expect(text).toContain('press Authorize');
    const sections = await page.locator('.opblock-tag-section').all();
    const shown = await Promise.all(
      sections.map(async (section) => ({
        tag: await section.locator('.opblock-tag > a, .opblock-tag > span').first().innerText(),
        operations: await section.locator('.opblock').evaluateAll((blocks) =>
          blocks.map((block) =>
            ['-method', '-path, .opblock-summary-path__deprecated', '-description']
              .map((part) => block.querySelector(`.opblock-summary${part}`)?.textContent)
              .join(' ')
              // Zero-width spaces mark line break opportunities in long paths.
              .replaceAll('\u200B', ''),
          ),
        ),
      })),
    );
    expect(shown[0]).toEqual({
      tag: 'categories',
      operations: ['GET /categories List categories', 'POST /categories Create a category'],
    });
    const { paths, tags } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(shown).toEqual(
      tags!.map(({ name }) => ({
        tag: name,
        operations: Object.entries(paths).flatMap(([path, item]) =>
          Object.entries(item as Record<string, { summary: string; tags: string[] }>)
            .filter(([, operationObject]) => operationObject.tags.includes(name))
            .map(([method, { summary }]) => `${method.toUpperCase()} ${path} ${summary}`),
        ),
      })),
    );
    await page.locator('.scheme-container').evaluate((servers) => servers.scrollIntoView());
    await page.screenshot({ path: join(RESULTS, 'swagger-ui.png') });
  });

  it('strikes through the deprecated operation and shows sunset date and stability', async () => {
    const page = await open();
    const pet = operation(page, 'pets', 'getPet');
    const findStruckThrough = (): Promise<unknown> =>
      page.evaluate(`[...document.querySelectorAll('.opblock')]
        .filter((block) => [...block.querySelectorAll('.opblock-summary *')]
          .some((part) => getComputedStyle(part).textDecorationLine === 'line-through'))
        .map(({ id }) => id)`);
    expect(await findStruckThrough()).toEqual(['operations-pets-getPet']);
    await pet.locator('.opblock-summary-control').click();
    await pet.getByText('Sunset on 2027-11-01').waitFor();
    const orders = operation(page, 'store', 'listOrders');
    await orders.locator('.opblock-summary-control').click();
    await orders.getByText('Stability: experimental.').waitFor();
  });

  it('creates and lists categories with a key, and keeps the key across reloads', async () => {
    const page = await open();
    await authorize(page, app.key);
    const create = await tryOut(page, 'createCategory');
    await create
      .getByRole('textbox', { name: 'Request body' })
      .fill('{"name": "from the browser"}');
    const created = await execute(create);
    expect(created).toEqual({
      status: '201',
      body: { id: expect.any(Number), name: 'from the browser' },
    });
    await page.reload();
    const list = await tryOut(page, 'listCategories');
    const listed = await execute(list);
    expect(listed.status).toBe('200');
    expect(listed.body).toContainEqual(created.body);
  });

  it.each([
    ['an invalid key', INVALID_KEY],
    ['no key', undefined],
  ])('shows the Error body of a request with %s', async (_case, key) => {
    const page = await open();
    if (key !== undefined) await authorize(page, key);
    expect(await execute(await tryOut(page, 'listCategories'))).toEqual({
      status: '401',
      body: { code: 'UNAUTHORIZED', message: expect.stringMatching(/API key/), status: 401 },
    });
    // The browser logs every error response to the console.
    expect(problems.splice(0)).toEqual([expect.stringContaining('status of 401')]);
  });

  it('works on a mobile screen 390 pixels wide', async () => {
    const page = await open(MOBILE);
    const width = (): Promise<unknown> =>
      page.evaluate('Math.max(document.documentElement.scrollWidth, innerWidth)');
    expect(await width()).toBe(390);
    await authorize(page, app.key);
    const list = await tryOut(page, 'listCategories');
    expect((await execute(list)).status).toBe('200');
    for (const id of ['pets-getPet', 'store-listOrders', 'categories-createCategory']) {
      await page.locator(`#operations-${id} .opblock-summary-control`).click();
    }
    expect(await width()).toBe(390);
    const buttons = await page.getByRole('button').all();
    expect(buttons.length).toBeGreaterThan(10);
    for (const button of buttons) {
      if (!(await button.isVisible())) continue;
      const box = (await button.boundingBox())!;
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(390);
    }
    expect(await findAccessibilityViolations(page)).toEqual([]);
  });

  it('has no serious accessibility violations', async () => {
    const page = await open();
    expect(await findAccessibilityViolations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Authorize' }).click();
    await page.locator('.dialog-ux').getByRole('textbox').fill(app.key);
    await page.getByRole('button', { name: 'Apply credentials' }).click();
    expect(await findAccessibilityViolations(page)).toEqual([]);
    await page.locator('.dialog-ux').getByRole('button', { name: 'Close' }).last().click();
    for (const id of ['pets-getPet', 'store-listOrders', 'categories-createCategory']) {
      await page.locator(`#operations-${id} .opblock-summary-control`).click();
    }
    await execute(await tryOut(page, 'listCategories'));
    expect(await findAccessibilityViolations(page)).toEqual([]);
  });
});
