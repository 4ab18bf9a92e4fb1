import { AxeBuilder } from '@axe-core/playwright';
import type { OpenAPIObject } from '@nestjs/swagger';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { FEATURES } from '../src/features.js';
import { startApp, type TestApp } from './support/app.js';
import { chromiumPath } from './support/chromium.js';
import { sendRequest } from './support/http-client.js';
import { getOperations } from './support/routes.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

const MOBILE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const INVALID_KEY = 'pet_wrongwrongwrongwrongwrongwrongwrongwrong';
/** The operations that the test of the layout expands. */
const EXPANDED = ['stubs-getDeprecated', 'stubs-listExperimental', 'categories-createCategory'];

async function authorize(page: Page, key: string): Promise<void> {
  await page.getByRole('button', { name: 'Authorize' }).click();
  const dialog = page.locator('.dialog-ux');
  await dialog.getByRole('textbox').fill(key);
  await dialog.getByRole('button', { name: 'Apply credentials' }).click();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
}

/** Expands an operation. */
async function expand(page: Page, id: string): Promise<Locator> {
  const block = page.locator(`#operations-${id}`);
  await block.locator('.opblock-summary-control').click();
  return block;
}

/** Expands an operation on categories and enables "Try it out". */
async function tryOut(page: Page, id: string): Promise<Locator> {
  const block = await expand(page, `categories-${id}`);
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

/** Axe's rule for the contrast of text, which takes four times as long as all other rules. */
const CONTRAST = 'color-contrast';

/**
 * Returns the serious and critical accessibility violations in an element as `rule: element`.
 *
 * @param rules only these rules, or all but these
 */
async function findAccessibilityViolations(
  page: Page,
  selector: string,
  rules: { readonly only?: string; readonly except?: string } = {},
): Promise<string[]> {
  const { only, except } = rules;
  const { violations, passes } = await new AxeBuilder({ page })
    .include(selector)
    .options({
      // Four times as fast: the elements without violations are not described.
      resultTypes: ['violations'],
      ...(only && { runOnly: [only] }),
      ...(except && { rules: { [except]: { enabled: false } } }),
    })
    // Without it, the results of frames, of which this page has none, are merged in another page.
    .setLegacyMode()
    .analyze();
  // The rules have been applied.
  expect(passes.length + violations.length).toBeGreaterThan(only === undefined ? 10 : 0);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`));
}

// The browser is slow while other tests run in parallel.
import.meta.jest.setTimeout(180_000);

const describeIfChrome = chromiumPath === undefined ? describe.skip : describe;
if (chromiumPath === undefined) {
  process.stderr.write('Skipped: Swagger UI in Chromium. Install Chromium or set CHROME_PATH.\n');
}

describeIfChrome('Swagger UI in Chromium', () => {
  let app: TestApp;
  let document: OpenAPIObject;
  let browser: Browser;
  /** Shared by the tests on a desktop: to load the page again takes a quarter of the time. */
  let desktop: Page;
  /** Console errors and warnings, exceptions, CSP violations and requests to other origins. */
  let problems: string[] = [];
  beforeAll(async () => {
    app = await startApp({ features: [...FEATURES, StubsModule] });
    document = (await sendRequest(`${app.url}/openapi.json`)).json();
    browser = await chromium.launch({ executablePath: chromiumPath! });
    desktop = await createPage({ viewport: { width: 1280, height: 720 } });
  });
  afterAll(async () => {
    await browser?.close();
    await app.stop();
  });
  afterEach(() => {
    const reported = problems;
    problems = [];
    if (reported.length > 0) throw new Error(`The page reported:\n${reported.join('\n')}`);
  });

  /** Creates a page whose problems are recorded. */
  async function createPage(options: BrowserContextOptions): Promise<Page> {
    const page = await browser.newPage(options);
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
    return page;
  }

  /** Loads Swagger UI without a key and waits until it shows operations. */
  async function open(page = desktop): Promise<Page> {
    if (page.url() !== 'about:blank') await page.evaluate('localStorage.clear()');
    await page.goto(`${app.url}/docs`);
    await page.locator('#operations-stubs-listExperimental').waitFor();
    return page;
  }

  it('shows the name of the service, how to get a key, and every operation under its tag', async () => {
    const page = await open();
    expect(await page.title()).toBe('Petstore API');
    const information = page.locator('.information-container');
    expect(await information.getByRole('heading', { level: 1 }).innerText()).toMatch(/^Petstore/);
    const text = await information.innerText();
    expect(text).toContain('API key, which the operator of the service issues');
    expect(text).toContain('Press Authorize');
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
    expect(shown).toEqual(
      document.tags!.map(({ name }) => ({
        tag: name,
        operations: getOperations(document)
          .filter(({ operation }) => operation.tags?.includes(name))
          .map(({ method, path, operation }) => `${method} ${path} ${operation.summary}`),
      })),
    );
  });

  it.each([
    [1280, 900],
    [390, 844],
  ])('shows an operation on the first screen of %i by %i pixels', async (width, height) => {
    const page = await open(await createPage({ viewport: { width, height } }));
    for (const part of ['.btn.authorize', '.opblock']) {
      const box = (await page.locator(part).first().boundingBox())!;
      expect(box.y + box.height).toBeLessThan(height);
    }
  });

  it('strikes through a deprecated operation and shows sunset date and stability', async () => {
    const page = await open();
    const struckThrough = await page.evaluate(`[...document.querySelectorAll('.opblock')]
      .filter((block) => [...block.querySelectorAll('.opblock-summary *')]
        .some((part) => getComputedStyle(part).textDecorationLine === 'line-through'))
      .map(({ id }) => id)`);
    const deprecatedIds = getOperations(document)
      .filter(({ operation }) => operation.deprecated)
      .map(({ operation }) => `operations-${operation.tags?.[0]}-${operation.operationId}`);
    expect(deprecatedIds).toContain('operations-stubs-getDeprecated');
    expect(struckThrough).toEqual(deprecatedIds);
    const deprecated = await expand(page, 'stubs-getDeprecated');
    await deprecated.getByText('Sunset on 2027-11-01').waitFor();
    const experimental = await expand(page, 'stubs-listExperimental');
    await experimental.getByText('Stability: experimental.').waitFor();
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

  it('shows the Error body of a request without a key and with an invalid one', async () => {
    const page = await open();
    const list = await tryOut(page, 'listCategories');
    expect(await execute(list)).toEqual({
      status: '401',
      body: { code: 'UNAUTHORIZED', message: expect.stringMatching(/missing/), status: 401 },
    });
    await list.getByRole('button', { name: 'Clear' }).click();
    await authorize(page, INVALID_KEY);
    expect(await execute(list)).toEqual({
      status: '401',
      body: { code: 'UNAUTHORIZED', message: expect.stringMatching(/invalid/), status: 401 },
    });
    // The browser logs every error response to the console.
    const logged = expect.stringContaining('status of 401') as unknown;
    expect(problems.splice(0)).toEqual([logged, logged]);
  });

  it('blocks inline scripts and requests to other origins', async () => {
    const page = await open();
    // Strings, because TypeScript does not know the globals of the page.
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))`,
    );
    expect(await page.evaluate(`'ran' in window`)).toBe(false);
    expect(
      await page.evaluate(`fetch('https://evil.example/').then(() => 'sent', () => 'blocked')`),
    ).toBe('blocked');
    await waitFor(
      () => problems.join('\n'),
      (text) => /inline script/.test(text) && /connect-src https:\/\/evil\.example/.test(text),
      30_000,
    );
    problems = [];
  });

  it('works on a mobile screen 390 pixels wide', async () => {
    const page = await open(await createPage(MOBILE));
    const width = (): Promise<unknown> =>
      page.evaluate('Math.max(document.documentElement.scrollWidth, innerWidth)');
    expect(await width()).toBe(390);
    await authorize(page, app.key);
    const list = await tryOut(page, 'listCategories');
    expect((await execute(list)).status).toBe('200');
    for (const id of EXPANDED) await expand(page, id);
    expect(await width()).toBe(390);
    const buttons = await page
      .getByRole('button')
      .filter({ visible: true })
      .evaluateAll((elements) =>
        elements.map((element) => {
          const { left, right } = element.getBoundingClientRect();
          return { left, right };
        }),
      );
    expect(buttons.length).toBeGreaterThan(10);
    expect(buttons.filter(({ left, right }) => left < 0 || right > 390)).toEqual([]);
    // The tests of the color schemes check the contrast.
    expect(await findAccessibilityViolations(page, 'html', { except: CONTRAST })).toEqual([]);
  });

  it('shows before an operation is expanded whether it is deprecated or experimental', async () => {
    const page = await open();
    const markers = (id: string): Promise<string[]> =>
      page.locator(`#operations-${id} .opblock-summary .stability`).allInnerTexts();
    expect(await markers('stubs-getDeprecated')).toEqual(['deprecated']);
    expect(await markers('stubs-listExperimental')).toEqual(['experimental']);
    expect(await markers('categories-listCategories')).toEqual([]);
  });

  it('follows the color scheme of the system', async () => {
    const page = await open(await createPage({ colorScheme: 'dark' }));
    const background = (): Promise<unknown> =>
      page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
    const dark = await background();
    await page.emulateMedia({ colorScheme: 'light' });
    await waitFor(background, (color) => color !== dark, 30_000);
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await waitFor(background, (color) => color === dark, 30_000)).toBe(dark);
  });

  it.each(['light', 'dark'] as const)(
    'has no serious accessibility violations (%s)',
    async (colorScheme) => {
      const page = await open(await createPage({ colorScheme }));
      await page.getByRole('button', { name: 'Authorize' }).click();
      await page.locator('.dialog-ux').getByRole('textbox').fill(app.key);
      await page.keyboard.press('Enter');
      // The focus moves to the button that closes the dialog.
      await page.locator('.dialog-ux .btn-done:focus').waitFor();
      expect(await findAccessibilityViolations(page, '.dialog-ux')).toEqual([]);
      await page.locator('.dialog-ux').getByRole('button', { name: 'Close' }).last().click();
      await expand(page, 'stubs-getDeprecated');
      await execute(await tryOut(page, 'listCategories'));
      // The test on a mobile screen checks the other rules.
      expect(await findAccessibilityViolations(page, 'html', { only: CONTRAST })).toEqual([]);
    },
  );
});
