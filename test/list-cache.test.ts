import { createHook } from 'node:async_hooks';
import { Agent } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { coalesce } from '../src/platform/database/coalesce.js';
import { startApp, type TestApp } from './support/app.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { LIST_QUERY, recordQueries } from './support/queries.js';

const { jest } = import.meta;

const STRONG_ETAG = /^"[\x21\x23-\x7e]+"$/;
const KIB = 1024;

let app: TestApp;
let agent: Agent;
beforeAll(async () => {
  app = await startApp();
  agent = new Agent({ keepAlive: true });
});
beforeEach(() => app.dataSource.query('DELETE FROM "categories"'));
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  agent.destroy();
  await app.stop();
});

const list = (headers: Record<string, string> = {}, method = 'GET'): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/categories`, {
    method,
    headers: { authorization: `Bearer ${app.key}`, ...headers },
    agent,
  });

const create = (name: string, description?: string): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(app.key),
    body: JSON.stringify({ name, description }),
    agent,
  });

const parse = ({ body }: HttpResponse): unknown => JSON.parse(body.toString());
const namesIn = (answer: HttpResponse): string[] =>
  (parse(answer) as { name: string }[]).map(({ name }) => name);
const idsIn = (answer: HttpResponse): number[] =>
  (parse(answer) as { id: number }[]).map(({ id }) => id);
const idOf = (answer: HttpResponse): number => (parse(answer) as { id: number }).id;

/** Lets a random number of turns of the event loop pass. */
async function pause(): Promise<void> {
  for (let turns = Math.floor(Math.random() * 8); turns > 0; turns--) await turn();
}
const insertByHand = (name: string): Promise<unknown> =>
  app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);

describe('The ETag of the list', () => {
  it('is strong, and stays the same as long as the list does', async () => {
    await create('dog');
    const first = await list();
    expect(first.headers.etag).toMatch(STRONG_ETAG);
    const second = await list();
    expect(second.headers.etag).toBe(first.headers.etag);
    expect(second.body).toEqual(first.body);
  });

  it('changes with each create', async () => {
    const etags = [(await list()).headers.etag];
    for (const name of ['dog', 'cat', 'cat']) {
      expect((await create(name)).status).toBe(201);
      etags.push((await list()).headers.etag);
    }
    expect(new Set(etags).size).toBe(4);
  });

  it('stays the same where a create is refused', async () => {
    const before = await list();
    expect((await create('')).status).toBe(400);
    expect((await list()).headers.etag).toBe(before.headers.etag);
  });

  it('is the same after a restart with the same list', async () => {
    await create('dog');
    const before = await list();
    const database = { config: app.config.database, url: '', drop: async () => undefined };
    const again = await startApp({ database });
    try {
      const after = await sendRequest(`${again.url}/v1/categories`, {
        headers: { authorization: `Bearer ${app.key}` },
      });
      expect(after.body).toEqual(before.body);
      expect(after.headers.etag).toBe(before.headers.etag);
    } finally {
      await again.stop();
    }
  });
});

describe('A read with If-None-Match', () => {
  it.each([
    ['the ETag', (etag: string) => etag],
    ['its weak form', (etag: string) => `W/${etag}`],
    ['a list that has it', (etag: string) => `"other", ${etag}`],
    ['a list that has its weak form', (etag: string) => `W/"other" ,W/${etag}, "more"`],
    ['any', () => '*'],
  ])('is answered 304 without a body where it names %s', async (_what, header) => {
    await create('dog');
    const { headers } = await list();
    for (const method of ['GET', 'HEAD']) {
      const answer = await list({ 'if-none-match': header(headers.etag!) }, method);
      expect(answer.status).toBe(304);
      expect(answer.body).toHaveLength(0);
      expect(answer.headers.etag).toBe(headers.etag);
      expect(answer.headers['cache-control']).toBe('private, no-cache');
      expect(answer.headers.vary).toBe(headers.vary);
      expect(answer.headers['content-type']).toBeUndefined();
      expect(answer.headers['x-request-id']).toBeDefined();
    }
  });

  it.each([
    ['another ETag', () => '"other"'],
    ['a list of others', () => '"other", W/"more"'],
    ['nothing', () => ''],
    ['the ETag without its quotes', (etag: string) => etag.replaceAll('"', '')],
    ['the ETag in another case', (etag: string) => etag.toLowerCase()],
    ['an ETag that contains it', (etag: string) => etag.replace(/"$/, 'x"')],
  ])('is answered with the list where it names %s', async (_what, header) => {
    await create('dog');
    const plain = await list();
    const answer = await list({ 'if-none-match': header(plain.headers.etag!) });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual(plain.body);
    expect(answer.headers.etag).toBe(plain.headers.etag);
  });

  it('is answered with the list once the list has changed', async () => {
    const { headers } = await list();
    await create('dog');
    const answer = await list({ 'if-none-match': headers.etag! });
    expect(answer.status).toBe(200);
    expect(namesIn(answer)).toEqual(['dog']);
  });

  it('is answered 401 without a key', async () => {
    const { headers } = await list();
    const answer = await sendRequest(`${app.url}/v1/categories`, {
      headers: { 'if-none-match': headers.etag! },
    });
    expect(answer.status).toBe(401);
    expect(answer.headers.etag).toBeUndefined();
  });
});

describe('A read', () => {
  it('shows every create that was answered before it was sent', async () => {
    const WRITERS = 6;
    const CREATES = 30;
    const READERS = 6;
    const answered: number[] = [];
    const failures: unknown[] = [];
    const counts = { reads: 0, unchanged: 0, writing: WRITERS };

    const write = async (writer: number): Promise<void> => {
      for (let index = 0; index < CREATES; index++) {
        const answer = await create(`${writer}-${index}`);
        if (answer.status === 201) answered.push(idOf(answer));
        else failures.push(answer.status);
        await pause();
      }
      counts.writing--;
    };
    const read = async (): Promise<void> => {
      const known = new Map<string, Set<number>>();
      let last = '';
      do {
        const before = [...answered];
        const answer = await list(last === '' ? {} : { 'if-none-match': last });
        counts.reads++;
        last = answer.headers.etag!;
        if (answer.status === 304) counts.unchanged++;
        else known.set(last, new Set(idsIn(answer)));
        const missed = before.filter((id) => known.get(last)?.has(id) !== true);
        if (missed.length > 0) failures.push({ missed, status: answer.status });
        await pause();
      } while (counts.writing > 0);
    };
    await Promise.all([
      ...Array.from({ length: WRITERS }, (_, writer) => write(writer)),
      ...Array.from({ length: READERS }, () => read()),
    ]);

    expect(failures).toEqual([]);
    expect(answered).toHaveLength(WRITERS * CREATES);
    expect(counts.reads).toBeGreaterThan(READERS * 2);
    const ids = idsIn(await list());
    expect(ids).toEqual(answered.toSorted((a, b) => a - b));
  }, 30_000);

  it('shows what was changed by hand', async () => {
    await create('dog');
    expect(namesIn(await list())).toEqual(['dog']);
    await insertByHand('cat');
    expect(namesIn(await list())).toEqual(['dog', 'cat']);
    await app.dataSource.query(`UPDATE "categories" SET "name" = 'hound' WHERE "name" = 'dog'`);
    expect(namesIn(await list())).toEqual(['hound', 'cat']);
    await app.dataSource.query(`DELETE FROM "categories" WHERE "name" = 'cat'`);
    expect(namesIn(await list())).toEqual(['hound']);
  });

  it('shows what another instance of the service wrote to the same database', async () => {
    expect(namesIn(await list())).toEqual([]);
    const database = { config: app.config.database, url: '', drop: async () => undefined };
    const neighbour = await startApp({ database });
    try {
      for (const name of ['dog', 'cat', 'rabbit']) {
        const { status } = await sendRequest(`${neighbour.url}/v1/categories`, {
          method: 'POST',
          headers: jsonHeaders(app.key),
          body: JSON.stringify({ name }),
        });
        expect(status).toBe(201);
        expect(namesIn(await list()).at(-1)).toBe(name);
      }
      await create('hamster');
      const seen = await sendRequest(`${neighbour.url}/v1/categories`, {
        headers: { authorization: `Bearer ${app.key}` },
      });
      expect(namesIn(seen)).toEqual(['dog', 'cat', 'rabbit', 'hamster']);
    } finally {
      await neighbour.stop();
    }
  });

  it('shows what another connection committed, and not what it rolled back', async () => {
    const other = new PetstoreDataSource(databaseOptions(app.config.database));
    await other.open();
    const runner = other.createQueryRunner();
    try {
      await list();
      await runner.startTransaction();
      await runner.query(`INSERT INTO "categories" ("name") VALUES ('dog')`);
      expect(namesIn(await list())).toEqual([]);
      await runner.rollbackTransaction();
      expect(namesIn(await list())).toEqual([]);
      await runner.startTransaction();
      await runner.query(`INSERT INTO "categories" ("name") VALUES ('cat')`);
      expect(namesIn(await list())).toEqual([]);
      await runner.commitTransaction();
      expect(namesIn(await list())).toEqual(['cat']);
    } finally {
      await runner.release();
      await other.destroy();
    }
  });

  it('of an unchanged list does not read the categories again', async () => {
    await create('dog');
    await list();
    const queries = recordQueries(app.dataSource, LIST_QUERY);
    for (let reads = 0; reads < 10; reads++) expect((await list()).status).toBe(200);
    expect(queries).toEqual([]);
    await insertByHand('cat');
    expect(namesIn(await list())).toEqual(['dog', 'cat']);
    expect(queries).toHaveLength(1);
  });

  it('of a changed list is shared with the reads that come with it', async () => {
    await list();
    const queries = recordQueries(app.dataSource, LIST_QUERY);
    for (const names of [['dog'], ['dog', 'cat']]) {
      await insertByHand(names.at(-1)!);
      const answers = await Promise.all(Array.from({ length: 50 }, () => list()));
      expect(answers).toHaveLength(50);
      for (const answer of answers) expect(namesIn(answer)).toEqual(names);
    }
    expect(queries).toHaveLength(2);
  });

  it('fails where the database does, and the next one recovers', async () => {
    await create('dog');
    await list();
    await insertByHand('cat');
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const failed = await Promise.all([list(), list(), list()]);
    expect(failed).toHaveLength(3);
    for (const answer of failed) {
      expect(answer.status).toBe(500);
      expect(parse(answer)).toEqual({
        code: 'INTERNAL_ERROR',
        message: expect.not.stringMatching(/categories|hidden|SQL|table/i),
        status: 500,
      });
      expect(answer.headers.etag).toBeUndefined();
      expect(answer.headers['cache-control']).toBe('no-store');
    }
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    const recovered = await list();
    expect(recovered.status).toBe(200);
    expect(namesIn(recovered)).toEqual(['dog', 'cat']);
  });
});

/** Makes a list whose JSON has exactly as many bytes. */
async function fill(bytes: number): Promise<void> {
  const id = idOf(await create('dog', ''));
  const frame = JSON.stringify([{ id, name: 'dog', description: '' }]).length;
  await app.dataSource.query(
    `UPDATE "categories" SET "description" = '${'d'.repeat(bytes - frame)}'`,
  );
  expect((await list()).body).toHaveLength(bytes);
}

describe('The gzip form of the list', () => {
  const gzip = { 'accept-encoding': 'gzip' };

  it('is sent to a client that accepts it, with an ETag of its own', async () => {
    await fill(KIB + 1);
    const plain = await list();
    const answer = await list(gzip);
    expect(answer.status).toBe(200);
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.headers['content-type']).toBe(plain.headers['content-type']);
    expect(answer.headers['content-length']).toBe(String(answer.body.length));
    expect(answer.headers.vary).toMatch(/\baccept-encoding\b/i);
    expect(answer.headers.etag).toMatch(STRONG_ETAG);
    expect(answer.headers.etag).not.toBe(plain.headers.etag);
    expect(answer.body.length).toBeLessThan(plain.body.length);
    expect(gunzipSync(answer.body)).toEqual(plain.body);
  });

  it('has a 304 of its own', async () => {
    await fill(KIB + 1);
    const plain = await list();
    const zipped = await list(gzip);
    const unchanged = await list({ ...gzip, 'if-none-match': zipped.headers.etag! });
    expect(unchanged.status).toBe(304);
    expect(unchanged.body).toHaveLength(0);
    expect(unchanged.headers.etag).toBe(zipped.headers.etag);
    expect(unchanged.headers.vary).toMatch(/\baccept-encoding\b/i);
    // The ETag of one form says nothing of the other (RFC 9110, section 8.8.3.3).
    expect((await list({ ...gzip, 'if-none-match': plain.headers.etag! })).status).toBe(200);
    expect((await list({ 'if-none-match': zipped.headers.etag! })).status).toBe(200);
  });

  it('is not made of a list below 1 KB', async () => {
    await fill(KIB - 1);
    const answer = await list(gzip);
    expect(answer.headers['content-encoding']).toBeUndefined();
    expect(answer.body).toHaveLength(KIB - 1);
  });

  it('has nothing that a client without it would not get', async () => {
    await fill(KIB + 1);
    const plain = await list();
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.headers['content-length']).toBe(String(KIB + 1));
    expect(plain.headers.vary).toMatch(/\baccept-encoding\b/i);
  });

  it.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['deflate, gzip;q=0.5', 'gzip'],
    ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'gzip'],
    ['identity;q=0.5, gzip', 'gzip'],
    ['gzip;q=0', undefined],
    ['gzip;q=0.0, *', undefined],
    ['deflate, br', undefined],
    ['identity', undefined],
    ['gzip;q=0.1, identity;q=0.9', undefined],
    ['', undefined],
  ])('is chosen as Accept-Encoding says: %j', async (accepted, encoding) => {
    await fill(KIB + 1);
    const answer = await list({ 'accept-encoding': accepted });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-encoding']).toBe(encoding);
    expect(answer.headers.vary).toMatch(/\baccept-encoding\b/i);
  });

  it('is made once, when it is first asked for', async () => {
    let compressions = 0;
    const hook = createHook({
      init: (_id, type) => {
        if (type === 'ZLIB') compressions++;
      },
    }).enable();
    try {
      await fill(KIB + 1);
      await list();
      expect(compressions).toBe(0);
      const answers = await Promise.all(Array.from({ length: 20 }, () => list(gzip)));
      expect(new Set(answers.map(({ headers }) => headers.etag)).size).toBe(1);
      await list(gzip);
      expect(compressions).toBe(1);
      await create('cat');
      await list(gzip);
      expect(compressions).toBe(2);
    } finally {
      hook.disable();
    }
  });

  it('shows every change, as the plain form does', async () => {
    await fill(KIB + 1);
    const before = await list(gzip);
    await create('cat');
    const after = await list({ ...gzip, 'if-none-match': before.headers.etag! });
    expect(after.status).toBe(200);
    expect(gunzipSync(after.body)).toEqual((await list()).body);
    expect(gunzipSync(after.body).toString()).toContain('"cat"');
  });
});

/** A task whose runs end when the test says so. */
function controlled(): {
  task: () => Promise<number>;
  runs: { resolve: (value: number) => void; reject: (error: Error) => void }[];
} {
  const runs: ReturnType<typeof controlled>['runs'] = [];
  const task = (): Promise<number> =>
    new Promise((resolve, reject) => {
      runs.push({ resolve, reject });
    });
  return { task, runs };
}

describe('shareNext', () => {
  it('gives those who ask at the same moment the same run', async () => {
    const { task, runs } = controlled();
    const ask = coalesce(task);
    const asked = [ask(), ask(), ask()];
    await turn();
    expect(runs).toHaveLength(1);
    runs[0]!.resolve(1);
    expect(await Promise.all(asked)).toEqual([1, 1, 1]);
  });

  it('gives those who ask during a run the next one, which they share', async () => {
    const { task, runs } = controlled();
    const ask = coalesce(task);
    const first = ask();
    await turn();
    const second = ask();
    await turn();
    const third = ask();
    await turn();
    expect(runs).toHaveLength(1);
    runs[0]!.resolve(1);
    expect(await first).toBe(1);
    await turn();
    expect(runs).toHaveLength(2);
    const fourth = ask();
    runs[1]!.resolve(2);
    expect(await Promise.all([second, third])).toEqual([2, 2]);
    await turn();
    expect(runs).toHaveLength(3);
    runs[2]!.resolve(3);
    expect(await fourth).toBe(3);
  });

  it('runs again for those who ask after a run', async () => {
    let runs = 0;
    const ask = coalesce(async () => ++runs);
    expect(await ask()).toBe(1);
    expect(await ask()).toBe(2);
  });

  it('gives an error to those who share the run, and to nobody else', async () => {
    const { task, runs } = controlled();
    const ask = coalesce(task);
    const failed = Promise.allSettled([ask(), ask()]);
    await turn();
    const next = ask();
    const error = new Error('broken');
    runs[0]!.reject(error);
    expect(await failed).toEqual([
      { status: 'rejected', reason: error },
      { status: 'rejected', reason: error },
    ]);
    await turn();
    runs[1]!.resolve(2);
    expect(await next).toBe(2);
  });

  it('survives a task that throws at once', async () => {
    let broken = true;
    const ask = coalesce(() => {
      if (broken) throw new Error('broken');
      return Promise.resolve('mended');
    });
    await expect(ask()).rejects.toThrow('broken');
    broken = false;
    expect(await ask()).toBe('mended');
  });

  it('is never run twice at the same time', async () => {
    let running = 0;
    let runs = 0;
    const overlaps: number[] = [];
    const ask = coalesce(async () => {
      if (++running > 1) overlaps.push(running);
      runs++;
      await turn();
      running--;
    });
    const asked: Promise<void>[] = [];
    for (let index = 0; index < 50; index++) {
      asked.push(ask());
      if (index % 3 === 0) await turn();
    }
    await Promise.all(asked);
    expect(overlaps).toEqual([]);
    expect(runs).toBeGreaterThan(1);
    expect(runs).toBeLessThan(50);
  });
});
