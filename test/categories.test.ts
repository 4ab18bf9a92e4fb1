import { startApp, type TestApp } from './support/app.js';

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

describe('GET /v1/categories', () => {
  it('answers an empty array where there is no category', async () => {
    const response = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
    expect(response.status).toBe(200);
    expect(response.body).toEqual([]);
  });
});
