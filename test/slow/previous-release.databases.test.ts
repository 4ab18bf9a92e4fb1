import { createDatabase, type TestDatabase } from '../support/app.js';
import { ISOLATION_LEVELS } from '../support/databases.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { buildPreviousRelease, describeWithPreviousRelease } from '../support/previous-release.js';
import type { ProjectCopy } from '../support/project-copy.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';

let release: ProjectCopy;
let database: TestDatabase;
let services: Services;
beforeAll(async () => {
  release = await buildPreviousRelease();
});
afterAll(() => release.remove());
afterEach(async () => {
  await services.close();
  await database.drop();
});

const startFormer = (): Promise<RunningService> =>
  services.serve({ main: release.resolve('dist/main.js') });

/** Sends a create request with an Idempotency-Key. */
const create = ({ url }: RunningService, key: string): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, {
    method: 'POST',
    headers: { ...jsonHeaders(BOOTSTRAP_KEY), 'Idempotency-Key': key },
    body: `{"name":"of ${key}"}`,
  });

describeWithPreviousRelease.each(ISOLATION_LEVELS)(
  'beside an instance of the previous release, with the isolation level %s, a new one',
  (isolation) => {
    beforeEach(async () => {
      database = await createDatabase(undefined, isolation);
      services = await createServices({ DATABASE_URL: database.url });
    });

    it('repeats the responses of its Idempotency-Keys, and creates nothing twice either way', async () => {
      const former = await startFormer();
      const created = await create(former, 'former');
      const current = await services.serve();
      expect((await create(current, 'former')).text).toBe(created.text);
      const recorded = await create(current, 'current');
      expect(recorded.status).toBe(201);
      // Its fingerprints are different.
      expect(await create(former, 'current')).toBeError('IDEMPOTENCY_KEY_REUSED');
      expect((await create(current, 'current')).text).toBe(recorded.text);
      expect(await former.categories.getNames()).toEqual(['of former', 'of current']);
    });
  },
);
