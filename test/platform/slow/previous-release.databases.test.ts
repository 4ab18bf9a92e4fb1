import { createDatabase, type TestDatabase } from '../support/app.js';
import { describeOnPostgres } from '../support/databases.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { queryPostgres } from '../support/postgres-client.js';
import { ProjectCopy } from '../support/project-copy.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

/** The last commit of the previous release. */
const COMMIT = '639547c';

/** Whether this clone has the previous release; a shallow one skips the tests. */
const hasCommit = requires(
  `the commit ${COMMIT}, of the previous release`,
  commandSucceeds('git', ['cat-file', '-e', `${COMMIT}^{commit}`]),
);

/** A copy of the project of the previous release, whose build takes about 5 seconds. */
let release: ProjectCopy;
let database: TestDatabase;
let services: Services;
beforeAll(async () => {
  release = await ProjectCopy.create(COMMIT);
  const { failed, output } = await release.npm('build');
  if (failed) throw new Error(output);
});
afterAll(() => release.remove());
afterEach(async () => {
  await services.close();
  await database.drop();
});

/** Starts an instance of the previous or the new release, whose clock is wrong by this many hours. */
function start(name: 'former' | 'current', hours = 0): Promise<RunningService> {
  const clock = `const Clock = Date;
    const now = () => Clock.now() + ${hours * 3_600_000};
    globalThis.Date = class extends Clock {
      static now = now;
      constructor(...values) { super(...(values.length === 0 ? [now()] : values)); }
    };`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(clock)}` };
  return services.serve({
    env,
    ...(name === 'former' && { main: release.resolve('dist/main.js') }),
  });
}

/** Sends a create request with an Idempotency-Key. */
const create = ({ url }: RunningService, key: string): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, {
    method: 'POST',
    headers: { ...jsonHeaders(BOOTSTRAP_KEY), 'Idempotency-Key': key },
    body: `{"name":"of ${key}"}`,
  });

/** Starts an instance, and waits until it has deleted expired records, or was not allowed to. */
async function startCleanup(...instance: Parameters<typeof start>): Promise<void> {
  const where = `"idempotency_records" WHERE "key" = 'expired'`;
  await queryPostgres(
    database.url,
    `INSERT INTO "idempotency_records" VALUES (0, 'expired', '', '', 0);
     UPDATE "idempotency_records" SET "created_at" = 0 WHERE "key" = 'expired'`,
  );
  const { service } = await start(...instance);
  await waitFor(
    async () =>
      service.output.includes('is kept for 24 hours') ||
      (await queryPostgres(database.url, `SELECT 1 FROM ${where}`)).length === 0,
  );
  await queryPostgres(database.url, `DELETE FROM ${where}`);
}

hasCommit.describe('a new instance beside one of the previous release', () => {
  beforeEach(async () => {
    database = await createDatabase();
    services = await createServices({ DATABASE_URL: database.url });
  });

  it('repeats the responses of its Idempotency-Keys, and creates nothing twice either way', async () => {
    const former = await start('former');
    const created = await create(former, 'former');
    const current = await start('current');
    expect((await create(current, 'former')).text).toBe(created.text);
    const recorded = await create(current, 'current');
    expect(recorded.status).toBe(201);
    // The previous release computes other fingerprints.
    expect(await create(former, 'current')).toBeError('IDEMPOTENCY_KEY_REUSED');
    expect((await create(current, 'current')).text).toBe(recorded.text);
    expect(await former.categories.getNames()).toEqual(['of former', 'of current']);
  });

  // On SQLite, all instances have the clock of one machine.
  describeOnPostgres('on PostgreSQL', () => {
    it.each([
      ['former', 'current'],
      ['current', 'former'],
    ] as const)(
      'lists rows that either release creates or replication changes: the %s one starts before the %s one',
      async (first, second) => {
        const instances = [await start(first), await start(second)];
        const expected: string[] = [];
        const verify = async () => {
          for (const { categories } of instances)
            expect(await categories.getNames()).toEqual(expected);
        };
        for (const { categories, url } of instances) {
          await verify();
          await categories.create(url);
          expected.push(url);
        }
        await verify();
        await queryPostgres(
          database.url,
          'SET session_replication_role = replica; DELETE FROM "categories"',
        );
        expected.length = 0;
        await verify();
      },
    );

    it.each([
      ['former', 'current', 25],
      ['former', 'current', -25],
      ['current', 'former', 25],
      ['current', 'former', -25],
    ] as const)(
      'keeps the records if the clock of the %s one, but not of the %s one, is wrong by %d hours',
      async (wrong, right, hours) => {
        const instances = [await start(wrong, hours), await start(right)];
        const created = await Promise.all(instances.map((each) => create(each, each.url)));
        expect(created.map(({ status }) => status)).toEqual([201, 201]);
        // Each release deletes records when it starts.
        await startCleanup(wrong, hours);
        await startCleanup(right);
        const current = await start('current');
        for (const [index, { url }] of instances.entries())
          expect((await create(current, url)).text).toBe(created[index]!.text);
        expect(await current.categories.getAll()).toHaveLength(2);
      },
    );
  });
});
