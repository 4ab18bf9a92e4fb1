/** Swagger UI in Chromium. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { PetsModule } from '../../../examples/petstore/pets/pets.module.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { useApp } from '../support/app.js';
import { requires } from '../support/requirements.js';

// The browser is slow while other tests run in parallel.
import.meta.jest.setTimeout(180_000);

const PATHS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** The path of Chromium, if it is installed. An invalid CHROME_PATH fails the tests instead of skipping them. */
const chromiumPath = process.env['CHROME_PATH'] ?? PATHS.find((path) => existsSync(path));
const inChromium = requires('Chromium (see CHROME_PATH)', chromiumPath !== undefined);

/** Executes an operation and returns the response that the page shows. */
async function execute(block: Locator): Promise<{ status: string; body: unknown }> {
  await block.getByRole('button', { name: 'Execute' }).click();
  const response = block.locator('.live-responses-table .response');
  await response.waitFor();
  const [body] = await response.locator('.highlight-code code').allInnerTexts();
  const status = await response.locator('.response-col_status').innerText();
  return { status: status.trim(), body: JSON.parse(body!) };
}

let browser: Browser;
beforeAll(async () => {
  if (chromiumPath !== undefined) browser = await chromium.launch({ executablePath: chromiumPath });
});
afterAll(() => browser?.close());

inChromium.describe('Swagger UI in Chromium', () => {
  const app = useApp({ features: [CategoriesModule, PetsModule] });
  let page: Page;
  /** Console errors and warnings, exceptions, CSP violations and requests to other origins. */
  let problems: string[];
  afterEach(() => page.close());

  /** Loads Swagger UI without a key and waits until it shows operations. */
  async function open(): Promise<void> {
    problems = [];
    page = await browser.newPage();
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
    await page.locator('#operations-categories-createCategory').waitFor();
  }

  async function authorize(key: string): Promise<void> {
    await page.getByRole('button', { name: 'Authorize' }).click();
    const dialog = page.locator('.dialog-ux');
    await dialog.getByRole('textbox').fill(key);
    await dialog.getByRole('button', { name: 'Apply credentials' }).click();
    await dialog.locator('.btn-done').click();
    await dialog.waitFor({ state: 'detached' });
  }

  /** Expands an operation on categories and enables "Try it out". */
  async function tryOut(id: string): Promise<Locator> {
    const block = page.locator(`#operations-categories-${id}`);
    await block.locator('.opblock-summary-control').click();
    await block.getByRole('button', { name: 'Try it out' }).click();
    return block;
  }

  it('creates and lists categories with a key, and keeps the key across reloads', async () => {
    await open();
    await authorize(app.key);
    const create = await tryOut('createCategory');
    await create.locator('textarea').fill('{"name": "from the browser"}');
    const created = await execute(create);
    expect(created).toMatchObject({ status: '201', body: { name: 'from the browser' } });
    await page.reload();
    const listed = await execute(await tryOut('listCategories'));
    expect(listed.status).toBe('200');
    expect(listed.body).toContainEqual(created.body);
    expect(problems).toEqual([]);
  });

  it.each([
    ['light', 1280],
    ['dark', 360],
  ] as const)(
    'shows every text with a contrast of 4.5, within the page: %s, %i pixels wide',
    async (colorScheme, width) => {
      page = await browser.newPage({ colorScheme, viewport: { width, height: 800 } });
      /** Expects that no text is hard to read, now that the page shows something else. */
      async function audit(state: string): Promise<void> {
        const { count, found } = await page.evaluate<{ count: number; found: string[] }>(
          'findUnreadable()',
        );
        expect([state, found]).toEqual([state, []]);
        expect(count).toBeGreaterThan(10);
      }
      /** Clicks all elements that match a selector, within the page, because there are hundreds. */
      const clickAll = (selector: string): Promise<void> =>
        page.evaluate(
          `for (const element of document.querySelectorAll('${selector}')) element.click()`,
        );

      await page.addInitScript({ path: join(import.meta.dirname, '../support/page-audit.js') });
      await page.goto(`${app.url}/docs`);
      await page.addStyleTag({ content: '* { transition: none !important; }' });
      const create = page.locator('#operations-categories-createCategory');
      await create.waitFor();
      await clickAll('.opblock-summary-control');
      await create.locator('details').last().waitFor();
      await clickAll('.error-response summary');
      await audit('expanded');
      await clickAll('.try-out__btn');
      await clickAll('.tablinks[data-name=model]');
      for (let depth = 0; depth < 3; depth++)
        await clickAll('.model-box-control[aria-expanded=false], .model-toggle.collapsed');
      await audit('try it out');
      await clickAll('.tablinks[data-name=example]');
      expect((await execute(create)).status).toBe('401');
      await audit('response');
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    },
  );
});
