import { startApp, type TestApp } from '../../../../test/support/app.js';
import { runSpecmatic, specmatic } from '../../../../test/support/specmatic.js';

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

specmatic.describe("Specmatic's resiliency tests", () => {
  it('find no failure of the operations of categories', async () => {
    const { failed, passed } = await runSpecmatic(app.url, app.key, ['/categories']);
    expect(failed).toEqual([]);
    expect(Object.keys(passed).toSorted()).toEqual([
      '+ve GET /categories',
      '+ve POST /categories',
      '-ve GET /categories',
      '-ve POST /categories',
    ]);
  });
});
