import { Body, Controller, Post } from '@nestjs/common';
import { ApiTags, type OpenAPIObject } from '@nestjs/swagger';
import type { Test } from 'supertest';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import {
  Feature,
  Operation,
  Property,
  ResourceKit,
  ReturnsEtag,
  Versioned,
} from '../../../src/platform/index.js';
import { useApp } from '../support/app.js';
import { type Cage, CageEntity, CagesModule } from '../support/cages.module.js';

/** A resource with the same properties as a `Versioned`. */
class Page {
  @Property({ type: 'integer' }) version!: number;
  @Property({ type: 'object' }) body!: object;
}

const created = { status: 201, response: 'The page.', returns: Page };

@ApiTags('pages')
@Controller('pages')
class PagesController {
  @Post()
  @Operation({ operationId: 'createPage', ...created, location: 'pages/{version}' })
  create(@Body() page: Page): Page {
    return page;
  }

  @Post('versioned')
  @ReturnsEtag()
  @Operation({ operationId: 'createVersionedPage', ...created, location: 'pages/{version}' })
  createVersioned(@Body() page: Page): Versioned<Page> {
    return new Versioned(7, page);
  }
}

@Feature({ tag: { name: 'pages', description: 'Pages.' }, controllers: [PagesController] })
class PagesModule {}

const app = useApp({ features: [CategoriesModule, CagesModule, PagesModule] });

type Method = 'get' | 'head' | 'post' | 'put' | 'patch' | 'delete';

function send(method: Method, id: number | '', headers = {}, body?: object): Test {
  const request = app.http()[method](`/v1/cages/${id}`.replace(/\/$/, ''));
  return request.auth(app.key, { type: 'bearer' }).set(headers).send(body);
}

let count = 0;
const newCage = (): Omit<Cage, 'id'> => ({
  label: `label ${++count}`,
  room: 'attic',
  shelfPosition: count,
});

async function createCage(): Promise<{ cage: Cage; id: number; etag: string }> {
  const { status, body, headers } = await send('post', '', {}, newCage());
  expect([status, headers['etag']]).toEqual([201, expect.stringMatching(/^"[1-9]\d*"$/)]);
  const cage = body as Cage;
  return { cage, id: cage.id, etag: headers['etag'] as string };
}

describe('GET /v1/cages/{cageId}', () => {
  it('returns a strong ETag that each update changes', async () => {
    const { cage, id, etag } = await createCage();
    const response = await send('get', id);
    expect([response.status, response.body]).toEqual([200, cage]);
    expect(response.headers).toMatchObject({ etag, 'cache-control': 'private, no-cache' });
    const updated = await send('patch', id, {}, { room: 'cellar' });
    const changed = updated.headers['etag'];
    expect([updated.status, changed]).toEqual([200, expect.not.stringMatching(etag)]);
    expect(updated.headers['cache-control']).toBe('no-store');
    expect((await send('head', id)).headers['etag']).toBe(changed);
    const unchanged = await send('patch', id, {}, {});
    expect([unchanged.status, unchanged.headers['etag']]).toEqual([200, changed]);
  });

  it('ignores an id and a version in a patch', async () => {
    const { id } = await createCage();
    const table = app.dataSource.getRepository(CageEntity);
    const cages = app.app.get(ResourceKit).resource(table, { toBody: (row) => row });
    const patch = { room: 'garden', id: id + 1, version: 7 };
    const { body } = await cages.patch({ id }, patch);
    expect(body).toMatchObject({ id, room: 'garden' });
    expect(body.version).not.toBe(7);
  });

  it('returns a new ETag after a restore and another update', async () => {
    const { id } = await createCage();
    const table = app.dataSource.getRepository(CageEntity);
    const backup = await table.findOneByOrFail({ id });
    const lost = await send('patch', id, {}, { room: 'cellar' });
    await table.update({ id }, backup);
    const updated = await send('patch', id, {}, { room: 'garden' });
    expect(updated.headers['etag']).not.toBe(lost.headers['etag']);
  });

  it.each([
    ['W/ETAG', 304],
    ['W/"7" ,W/ETAG, "8"', 304],
    ['*', 304],
    ['"11"', 200],
    ['"other", W/"more"', 200],
    ['W/*', 200],
  ])('evaluates If-None-Match: %s', async (etags, status) => {
    const { id, etag } = await createCage();
    for (const method of ['get', 'head'] as const) {
      const headers = { 'If-None-Match': etags.replace('ETAG', etag) };
      const response = await send(method, id, headers);
      const isEmpty = (response.text ?? '') === '';
      expect([response.status, response.headers['etag'], isEmpty]).toEqual([
        status,
        etag,
        status === 304 || method === 'head',
      ]);
    }
  });
});

describe('a resource with exactly the properties version and body', () => {
  it.each([
    ['', undefined],
    ['/versioned', '"7"'],
  ])(
    'returns its Location, and an ETag if it is Versioned: POST /v1/pages%s',
    async (path, etag) => {
      const page = { version: 1, body: { version: 2 } };
      const request = app.http().post(`/v1/pages${path}`).auth(app.key, { type: 'bearer' });
      const response = await request.send(page);
      expect([response.status, response.body]).toEqual([201, page]);
      expect([response.headers['location'], response.headers['etag']]).toEqual(['pages/1', etag]);
    },
  );
});

describe('If-Match', () => {
  const changes: [Method, () => object | undefined][] = [
    ['put', newCage],
    ['patch', () => ({ room: 'cellar' })],
    ['delete', () => undefined],
  ];

  describe.each(changes)('of a %s request', (method, createBody) => {
    it('accepts the ETag of the resource, also in a list, and *', async () => {
      for (const etags of ['*', ' W/"7" , ETAG', ',, ETAG,\t"a,b" ,', '"!",ETAG']) {
        const { id, etag } = await createCage();
        const headers = { 'If-Match': etags.replace('ETAG', etag) };
        const { status } = await send(method, id, headers, createBody());
        expect([etags, status]).toEqual([etags, method === 'delete' ? 204 : 200]);
      }
    });

    it('rejects every other ETag with 412, and changes nothing', async () => {
      const { cage, etag: current } = await createCage();
      const version = current.slice(1, -1);
      const others = ['"2"', '"9007199254740993"', '""', `W/${current}`, `"0${version}"`, version];
      const malformed = 'ETAGx|x ETAG|ETAG y|ETAG;"7"|*, ETAG|ETAG, *|ETAG, 7|ETAG, "|ETAG, "a b"'
        .split('|')
        .map((text) => text.replaceAll('ETAG', current));
      for (const etag of [...others, ...malformed])
        expect(await send(method, cage.id, { 'If-Match': etag }, createBody())).toBeError(
          'PRECONDITION_FAILED',
          `The resource has changed: its ETag is now ${current}.`,
        );
      const { body, headers } = await send('get', cage.id);
      expect([body, headers['etag']]).toEqual([cage, current]);
    });
  });

  it('returns 428 if a required one is missing, and 412 for an outdated patch without changes', async () => {
    const { id } = await createCage();
    expect(await send('delete', id)).toBeError('PRECONDITION_REQUIRED');
    expect(await send('put', id, {}, newCage())).toBeError('PRECONDITION_REQUIRED');
    expect(await send('patch', id, { 'If-Match': '"2"' }, {})).toBeError('PRECONDITION_FAILED');
  });

  it('accepts exactly one of 16 concurrent requests with the same ETag', async () => {
    const { id, etag } = await createCage();
    const headers = { 'If-Match': etag };
    for (let round = 0; round < 3; round++) {
      // More requests than connections, and few enough to finish in time on a busy machine.
      const rooms = Array.from({ length: 16 }, (_, index) => `room ${index}`);
      const responses = await Promise.all(
        rooms.map((room) => send('patch', id, headers, { room })),
      );
      const winners = responses.filter(({ status }) => status === 200);
      expect(responses.filter(({ status }) => status === 412)).toHaveLength(15);
      expect(winners).toHaveLength(1);
      expect(winners[0]!.headers['etag']).not.toBe(headers['If-Match']);
      headers['If-Match'] = winners[0]!.headers['etag'] as string;
      expect((await send('get', id)).body).toEqual(winners[0]!.body);
    }
  });

  it('returns to each of 16 concurrent updates without it what that update stored', async () => {
    const { id } = await createCage();
    const patches = Array.from({ length: 16 }, (_, n) => ({ room: `room ${n}`, weight: n }));
    const responses = await Promise.all(patches.map((patch) => send('patch', id, {}, patch)));
    expect(responses.map(({ body }) => body as Cage)).toMatchObject(patches);
    const etags = responses.map(({ headers }) => headers['etag'] as string);
    expect(new Set(etags).size).toBe(16);
    expect(etags).toContain((await send('get', id)).headers['etag']);
  });
});

/** Matches parameters that contain a header. */
const having = (name: string, required: boolean): unknown =>
  expect.arrayContaining([expect.objectContaining({ name, required })]);

describe('the OpenAPI document', () => {
  it('declares preconditions and their responses', async () => {
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const { get, patch, put } = paths['/cages/{cageId}']!;
    const etag = { headers: { ETag: { schema: { type: 'string' } } } };
    expect([get, patch, put]).toMatchObject([
      { parameters: having('If-None-Match', false), responses: { 200: etag, 304: {}, 431: {} } },
      { parameters: having('If-Match', false), responses: { 200: etag, 412: {}, 431: {} } },
      { parameters: having('If-Match', true), responses: { 412: {}, 428: {}, 431: {} } },
    ]);
    expect(patch!.responses).not.toHaveProperty('428');
    // Neither a body nor a query can be invalid.
    expect(get!.responses).not.toHaveProperty('400');
    expect(paths['/cages']!.get!.responses).toHaveProperty('400');
  });
});

/** Exchanges a cage. */
function exchange(id: number, etag: string): Test {
  const request = app.http().post(`/v1/cages/${id}/exchange`).auth(app.key, { type: 'bearer' });
  return request
    .set({ 'If-Match': etag, 'Idempotency-Key': `${id}-${etag.length}` })
    .send(newCage());
}

describe('POST /v1/cages/{cageId}/exchange, a transition in a transaction', () => {
  it('returns 412 for a former ETag, 404 without the resource, and 409 in another state', async () => {
    const { id, etag } = await createCage();
    const headers = { 'Content-Type': 'application/merge-patch+json' };
    const response = await send('patch', id, headers, { locked: false });
    const current = response.headers['etag'] as string;
    expect(await exchange(id, etag)).toBeError(
      'PRECONDITION_FAILED',
      `The resource has changed: its ETag is now ${current}.`,
    );
    expect(await exchange(id + 1000, current)).toBeError('NOT_FOUND');
    expect((await exchange(id, current)).status).toBe(201);
    expect(await exchange(id, '*')).toBeError('RESOURCE_IN_USE', `Cage ${id} is locked.`);
  });
});
