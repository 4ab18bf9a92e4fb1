import { hash, randomUUID } from 'node:crypto';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { IdempotencyRecord } from '../../../src/platform/idempotency/idempotency-record.entity.js';
import { toRecord } from '../../../src/platform/idempotency/idempotency-records.js';
import { IdempotencyRecordsCleanup } from '../../../src/platform/idempotency/idempotency-records-cleanup.js';
import { KeepIdempotencyRecords1763600000007 } from '../../../src/platform/idempotency/migrations/1763600000007-keep-idempotency-records.js';
import { startApp, useApp } from '../support/app.js';
import { advanceTime, setSystemTime } from '../support/clock.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';
import { createKey } from '../support/fixtures.js';
import { type HttpResponse, jsonHeaders } from '../support/http-client.js';
import { queryPostgres } from '../support/postgres-client.js';
import { RawConnection, rawRequest, type RawResponse } from '../support/raw-connection.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;

const HOUR_MS = 60 * 60 * 1_000;
const DAY_MS = 24 * HOUR_MS;

const app = useApp();
beforeEach(async () => {
  await app.dataSource.query('DELETE FROM "categories"');
});

/** Sends a create request with an Idempotency-Key. */
const create = (
  idempotencyKey: string | string[],
  body: object | string = { name: 'dog' },
  key = app.key,
  query = '',
): Promise<HttpResponse> =>
  app.send('POST', `/v1/categories${query}`, {
    key,
    headers: { 'Idempotency-Key': idempotencyKey },
    body,
  });

/** Sends a create request whose first line has this target. */
async function createAt(target: string, idempotencyKey: string): Promise<RawResponse> {
  const body = '{"name":"dog"}';
  const headers = Object.entries({
    ...jsonHeaders(app.key),
    'Idempotency-Key': idempotencyKey,
    'Content-Length': body.length,
    Connection: 'close',
  }).map((header) => header.join(': '));
  const connection = await RawConnection.open(app.url);
  connection.send(rawRequest({ method: 'POST', target, headers, body }));
  return (await connection.closed())[0]!;
}

const countRecords = async (): Promise<number> => {
  const [row] = await app.dataSource.query<{ count: number | string }[]>(
    'SELECT count(*) AS "count" FROM "idempotency_records"',
  );
  return Number(row!.count);
};

const isReplayed = ({ headers }: HttpResponse): boolean =>
  headers['idempotency-replayed'] === 'true';

describe('a create request with an Idempotency-Key', () => {
  it('creates one row, and returns the same bytes again, also after the row was deleted', async () => {
    const key = randomUUID();
    const body = { name: 'dog', description: 'Wau "ünï" \u{1F436}' };
    const first = await create(key, body);
    expect(first.status).toBe(201);
    expect(first.headers).not.toHaveProperty('idempotency-replayed');
    for (let repetition = 0; repetition < 3; repetition++) {
      const repeated = await create(key, body);
      expect(repeated.status).toBe(201);
      expect(isReplayed(repeated)).toBe(true);
      expect(repeated.body).toEqual(first.body);
    }
    expect(await app.categories.getAll()).toEqual([first.json()]);
    await app.dataSource.query('DELETE FROM "categories"');
    expect((await create(key, body)).body).toEqual(first.body);
    expect(await app.categories.getAll()).toEqual([]);
  });

  it('returns the bytes that another instance has recorded', async () => {
    const other = await startApp({ database: { config: app.config.database } });
    const key = randomUUID();
    const first = await create(key, { name: 'dog', description: '{"id":1}' });
    const repeated = await other.send('POST', '/v1/categories', {
      key: app.key,
      headers: { 'Idempotency-Key': key },
      body: '{"name":"dog","description":"{\\"id\\":1}"}',
    });
    await other.stop();
    expect([isReplayed(repeated), repeated.text]).toEqual([true, first.text]);
  });

  it('creates a row for each API key that sends the same Idempotency-Key', async () => {
    const key = randomUUID();
    const other = await app.app.get(ApiKeysService).create('other');
    const first = await create(key);
    const second = await create(key, { name: 'dog' }, other.key);
    expect(isReplayed(second)).toBe(false);
    expect(second.text).not.toBe(first.text);
    expect(await app.categories.getAll()).toHaveLength(2);
  });

  it('compares bodies without white space, but with the order of the properties', async () => {
    const key = randomUUID();
    const first = await create(key, '{"name":"dog","description":"d"}');
    expect((await create(key, '{ "name": "dog",\n"description": "d" }')).text).toBe(first.text);
    const reordered = await create(key, '{"description":"d","name":"dog"}');
    expect(reordered).toBeError('IDEMPOTENCY_KEY_REUSED');
  });

  it('returns 422 for the key of a different request, also if both arrive at once', async () => {
    const key = randomUUID();
    const first = await create(key);
    expect(await create(key, { name: 'cat' })).toBeError('IDEMPOTENCY_KEY_REUSED');
    const elsewhere = await create(key, { name: 'dog' }, app.key, '?other=url');
    expect(elsewhere).toBeError('IDEMPOTENCY_KEY_REUSED');
    expect(await app.categories.getAll()).toEqual([first.json()]);

    const concurrent = randomUUID();
    const responses = await Promise.all(['dog', 'cat'].map((name) => create(concurrent, { name })));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201, 422]));
    expect(await app.categories.getAll()).toHaveLength(2);
  });

  it.each([
    ['', ['?', 'http://petstore/v1/categories', 'HTTP://other.example:80/v1/categories?']],
    ['?a=1', ['http://user@petstore/v1/categories?a=1']],
  ])(
    'repeats the response in absolute form, by another host and with an empty query: %j',
    async (query, others) => {
      const key = randomUUID();
      const { status, text } = await createAt(`/v1/categories${query}`, key);
      expect(status).toBe(201);
      for (const other of others) {
        const repeated = await createAt(other.replace(/^\?/, '/v1/categories?'), key);
        expect([repeated.status, repeated.text]).toEqual([201, text]);
      }
      for (const other of ['??', '?a', '?a=%31', '?a=1&'])
        expect(await createAt(`/v1/categories${other}`, key)).toBeError('IDEMPOTENCY_KEY_REUSED');
    },
  );

  it('leaves the key unused if it is refused', async () => {
    const key = randomUUID();
    expect(await create(key, { desc: 'no name' })).toBeError('VALIDATION_FAILED');
    expect(await create(key, { name: 'dog' }, 'pet_unknown')).toBeError('UNAUTHORIZED');
    // Neither the row nor the record is stored if one of them is rejected.
    for (const [table, code] of [
      ['categories', 'INTERNAL_ERROR'],
      ['idempotency_records', 'SERVICE_UNAVAILABLE'],
    ] as const) {
      await app.dataSource.query(`ALTER TABLE "${table}" RENAME TO "hidden"`);
      expect(await create(key)).toBeError(code);
      await app.dataSource.query(`ALTER TABLE "hidden" RENAME TO "${table}"`);
    }
    expect(await app.categories.getAll()).toEqual([]);
    const created = await create(key);
    expect(created.status).toBe(201);
    expect(isReplayed(created)).toBe(false);
  });

  it.each([
    ['"quoted"', 'quoted'],
    [String.raw`"a \"b\" \\ c"`, String.raw`"a \"b\" \\ c"`],
    ['x'.repeat(255), `"${'x'.repeat(255)}"`],
    ['!#$%&()*+-./:;<=>?@[]^_`{|}~', '"!#$%&()*+-./:;<=>?@[]^_`{|}~"'],
  ])('accepts %s, the same key as %s', async (header, same) => {
    const first = await create(header);
    expect(first.status).toBe(201);
    const repeated = await create(same);
    expect(isReplayed(repeated)).toBe(true);
    expect(repeated.text).toBe(first.text);
  });

  it.each<string | string[]>([
    '',
    '""',
    'x'.repeat(256),
    '"unfinished',
    'two words',
    'a,b',
    '"a";b=1',
    'b\u00e4r',
    String.raw`"\n"`,
    ['a', 'b'],
    ['"a"', '"b"'],
  ])('returns 400 for the key %j', async (header) => {
    expect(await create(header)).toBeError('VALIDATION_FAILED', /Idempotency-Key/);
    expect(await app.categories.getAll()).toEqual([]);
  });
});

describe('the fingerprint in a record', () => {
  const password = '{"name":"hunter2"}';
  const former = hash('sha256', `POST /v1/categories\n${password}`);

  it('conceals the body, because it depends on the API key', async () => {
    const other = await app.app.get(ApiKeysService).create('other');
    const key = randomUUID();
    await create(key, password);
    await create(key, password, other.key);
    const records = await app.dataSource.manager.findBy(IdempotencyRecord, { value: key });
    expect(new Set([former, ...records.map(({ fingerprint }) => fingerprint)]).size).toBe(3);
  });

  it('matches also as the previous release computed it, without the API key', async () => {
    const first = await create('former', password);
    const { manager } = app.dataSource;
    await manager.update(IdempotencyRecord, { value: 'former' }, { fingerprint: former });
    expect((await create('former', password)).text).toBe(first.text);
    expect(await create('former', { name: 'other' })).toBeError('IDEMPOTENCY_KEY_REUSED');
  });
});

describe('the records of Idempotency-Keys', () => {
  beforeEach(() => {
    // SQLite: nothing is deleted after the start.
    if (DATABASE === 'sqlite') advanceTime(Date.now() + HOUR_MS);
  });
  afterEach(() => jest.restoreAllMocks());

  it('expire after 24 hours, and are deleted 1,000 at a time', async () => {
    const cleanup = app.app.get(IdempotencyRecordsCleanup);
    const { manager } = app.dataSource;
    await manager.clear(IdempotencyRecord);
    const keys = Array.from({ length: 1_001 }, () => createKey());
    const records = keys.map((key) => toRecord(key, {}));
    await manager.insert(IdempotencyRecord, records);
    const setAge = (age: number) =>
      manager.updateAll(IdempotencyRecord, { createdAt: Date.now() - age });
    await setAge(DAY_MS - 60_000);
    expect(await cleanup.deleteExpired()).toBe(0);
    await setAge(DAY_MS + 1);
    expect(await cleanup.deleteExpired()).toBe(1_000);
    expect(await cleanup.deleteExpired()).toBe(1);
    expect(await countRecords()).toBe(0);
  });

  it('disappear while the service runs', async () => {
    await create(randomUUID());
    await app.dataSource.query('UPDATE "idempotency_records" SET "created_at" = 0');
    // At the start, the database is not open yet, and the next clean-up is a minute later.
    app.app.get(IdempotencyRecordsCleanup).onApplicationBootstrap();
    expect(await waitFor(countRecords, (count) => count === 0)).toBe(0);
  });
});

/** Inserts a record as an instance whose clock is wrong by this many milliseconds. */
async function insertRecord(clockError: number, now = Date.now()): Promise<IdempotencyRecord> {
  const { manager } = app.dataSource;
  const key = randomUUID();
  const createdAt = now + clockError;
  await manager.insert(
    IdempotencyRecord,
    Object.assign(toRecord(createKey(key), {}), { createdAt }),
  );
  return manager.findOneByOrFail(IdempotencyRecord, { value: key });
}

describeOnSqlite('the records of Idempotency-Keys on SQLite', () => {
  afterEach(() => jest.restoreAllMocks());

  it.each([
    ['disappear once the service has run for ten minutes', 600_000, DAY_MS + 1, 0, 1],
    ['stay before, because the clock may be wrong then', 599_999, DAY_MS + 1, 0, 0],
    ['stay if the clock has been set forward since', DAY_MS, 60_000, 25 * HOUR_MS, 0],
  ])('%s', async (_name, uptime, age, clockChange, deleted) => {
    const now = performance.timeOrigin + uptime;
    await app.dataSource.manager.clear(IdempotencyRecord);
    await insertRecord(-age, now);
    advanceTime(now);
    setSystemTime(now + clockChange);
    expect(await app.app.get(IdempotencyRecordsCleanup).deleteExpired()).toBe(deleted);
  });
});

describeOnPostgres('the records of Idempotency-Keys on PostgreSQL', () => {
  afterEach(() => jest.restoreAllMocks());

  it.each([25, -25])(
    'follow the clock of the database if that of the instance is wrong by %d hours',
    async (hours) => {
      const now = Date.now();
      const { createdAt } = await insertRecord(hours * HOUR_MS);
      expect(Math.abs(Number(createdAt) - now)).toBeLessThan(HOUR_MS);
      setSystemTime(now + hours * HOUR_MS);
      expect(await app.app.get(IdempotencyRecordsCleanup).deleteExpired()).toBe(0);
    },
  );

  it('refuse to be deleted before, except by an operator', async () => {
    const { value } = await insertRecord(0);
    const { manager } = app.dataSource;
    const deletion = manager.transaction(async (transaction) => {
      // The name of the release that deletes by its own clock.
      await transaction.query(`SET LOCAL application_name = 'petstore'`);
      await transaction.delete(IdempotencyRecord, { value });
    });
    await expect(deletion).rejects.toThrow('is kept for 24 hours');
    const { url } = app.config.database as { url: string };
    await queryPostgres(url, 'DELETE FROM "idempotency_records"');
    expect(await manager.count(IdempotencyRecord)).toBe(0);
  });

  it('count as made at the migration if they are from the future', async () => {
    const migration = new KeepIdempotencyRecords1763600000007();
    const { manager } = app.dataSource;
    const queryRunner = app.dataSource.createQueryRunner();
    await migration.down(queryRunner);
    const { value, createdAt } = await insertRecord(25 * HOUR_MS);
    await migration.up(queryRunner);
    await queryRunner.release();
    const migrated = await manager.findOneByOrFail(IdempotencyRecord, { value });
    const difference = Number(createdAt) - Number(migrated.createdAt);
    expect(Math.round(difference / HOUR_MS)).toBe(25);
  });
});
