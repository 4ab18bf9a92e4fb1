import { randomUUID } from 'node:crypto';
import { Controller, Post } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { OpenAPIObject } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { CategoryEntity } from '../../src/modules/categories/category.entity.js';
import { ApiError } from '../../src/platform/errors/api-error.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../../src/platform/idempotency/idempotency-records.js';
import { IdParam } from '../../src/platform/resource/operation/id-param.decorator.js';
import { Operation } from '../../src/platform/resource/operation/operation.decorator.js';
import {
  deleteReturning,
  insertReturning,
  selectOne,
} from '../../src/platform/database/statements/row-statements.js';
import { ReturnsEtag, Versioned } from '../../src/platform/resource/operation/versioned.js';
import { type TestApp, useApp } from './support/app.js';
import { type Cage, CagesModule } from './support/cages.module.js';
import { ISOLATION_LEVELS } from './support/databases.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './support/http-client.js';

const action = { status: 201, response: 'The category that takes its place.' };
const NOT_FOR_SALE = { code: 'NOT_FOR_SALE', status: 409, description: 'it is not for sale' };
const gone = (): ApiError => new ApiError(NOT_FOR_SALE, 'It is not for sale.');

/** Actions that replace a category, each with a rule that their own success breaks. */
@Controller('categories/:id')
class ActionsController {
  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  @Post('exchange')
  @Operation({
    operationId: 'exchange',
    ...action,
    headers: {
      'X-Replaced-By': {
        description: 'The id of the category that takes its place.',
        schema: { type: 'integer' },
        value: ({ id }: CategoryEntity) => id,
      },
      'X-Its-Name': {
        description: 'Its name, percent-encoded.',
        schema: { type: 'string' },
        value: ({ name }: CategoryEntity) => `${name} \u{1F408}\r\n`,
      },
      'X-Description': {
        description: 'Missing without a description.',
        schema: { type: 'string' },
        value: ({ description }: CategoryEntity) => description ?? undefined,
      },
    },
  })
  exchange(
    @IdParam('id') id: number,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<CategoryEntity> {
    return transactionOnce(this.dataSource, key, async (manager) => {
      const categories = manager.getRepository(CategoryEntity);
      if ((await deleteReturning(categories, { id })) === undefined) throw gone();
      return insertReturning(categories, { name: `after ${id}` });
    });
  }

  /** Its rule is checked outside of the transaction. */
  @Post('exchange-checked')
  @ReturnsEtag()
  @Operation({ operationId: 'exchangeChecked', ...action, location: '../{id}' })
  async exchangeChecked(
    @IdParam('id') id: number,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Versioned<CategoryEntity>> {
    if ((await selectOne(this.dataSource.getRepository(CategoryEntity), { id })) === undefined)
      throw new ApiError('VALIDATION_FAILED', 'It is not for sale.', { cause: gone() });
    return transactionOnce(this.dataSource, key, async (manager) => {
      const categories = manager.getRepository(CategoryEntity);
      await deleteReturning(categories, { id });
      return new Versioned(7, await insertReturning(categories, { name: `after ${id}` }));
    });
  }
}

@Feature({
  tag: { name: 'actions', description: 'Actions.' },
  controllers: [ActionsController],
  errorCodes: [NOT_FOR_SALE],
})
class ActionsModule {}

let app: TestApp;

/** Sends a POST request, and again if it conflicts with others, as serializable transactions do. */
async function post(path: string, key: string, body?: object): Promise<HttpResponse> {
  const response = await sendRequest(`${app.url}/v1${path}`, {
    method: 'POST',
    headers: { ...jsonHeaders(app.key), 'Idempotency-Key': key },
    ...(body && { body: JSON.stringify(body) }),
  });
  return response.status === 503 ? post(path, key, body) : response;
}

/** What a repeated response has in common with the first. */
const getRepeated = ({ status, text, headers }: HttpResponse): object => ({
  status,
  text,
  etag: headers.etag,
  location: headers.location,
  replacedBy: headers['x-replaced-by'],
});

describe.each(ISOLATION_LEVELS)('with the isolation level %s', (isolation) => {
  const features = [CategoriesModule, CagesModule, ActionsModule];
  const own = useApp({ features, isolation, config: { corsOrigins: ['https://app.example'] } });
  beforeAll(() => {
    app = own;
  });

  it('documents, exposes and sends the headers of one operation', async () => {
    const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
    const { headers, text } = await sendRequest(`${app.url}/v1/categories/${id}/exchange`, {
      method: 'POST',
      headers: { ...jsonHeaders(app.key), origin: 'https://app.example' },
    });
    expect(headers['x-replaced-by']).toBe(String((JSON.parse(text) as CategoryEntity).id));
    expect(headers['x-its-name']).toBe(`after ${id} %F0%9F%90%88%0D%0A`);
    expect(headers['x-description']).toBeUndefined();
    const exposed = headers['access-control-expose-headers'];
    expect(exposed).toMatch(/^Allow,.*,X-Replaced-By,X-Its-Name,X-Description$/);
    const { body } = await app.http().get('/openapi.json').set('Origin', 'https://app.example');
    const { responses } = (body as OpenAPIObject).paths['/categories/{id}/exchange']!.post!;
    expect(responses['201']).toMatchObject({
      headers: {
        'X-Replaced-By': {
          description: 'The id of the category that takes its place.',
          schema: { type: 'integer' },
        },
      },
    });
  });

  describe.each([
    ['exchange', 'NOT_FOR_SALE'],
    ['exchange-checked', 'VALIDATION_FAILED'],
  ])('an action with an Idempotency-Key and a rule: %s', (name, code) => {
    it('gets its response again although its rule is broken by its success', async () => {
      const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
      const key = randomUUID();
      const first = await post(`/categories/${id}/${name}`, key);
      expect(first.status).toBe(201);
      const second = await post(`/categories/${id}/${name}`, key);
      expect(second.headers['idempotency-replayed']).toBe('true');
      expect(getRepeated(second)).toEqual(getRepeated(first));
      const other = await post(`/categories/${id}/${name}`, randomUUID());
      expect(other.json()).toMatchObject({ code });
      expect(await post(`/categories/${id + 1}/${name}`, key)).toBeError('IDEMPOTENCY_KEY_REUSED');
    });

    it('happens once for each of twenty keys at once', async () => {
      const ids = await Promise.all(
        Array.from(
          { length: 20 },
          async (_, n) => (await app.categories.create(`${n}`)).json<{ id: number }>().id,
        ),
      );
      const keys = ids.map(() => randomUUID());
      const sendAll = () =>
        Promise.all(
          [...ids, ...ids].map((id, n) => post(`/categories/${id}/${name}`, keys[n % 20]!)),
        );
      const responses = [...(await sendAll()), ...(await sendAll())];
      expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
      const names = await app.categories.getNames();
      for (const id of ids) expect(names.filter((each) => each === `after ${id}`)).toHaveLength(1);
    });
  });

  describe('a create request below a resource that is gone', () => {
    // With the name required, the handler looks for the cage itself.
    it.each(['ball', 'required'])('gets its response again, for a %s', async (name) => {
      const cage = { label: randomUUID(), room: 'attic', shelfPosition: 1 };
      const { id } = (await post('/cages', randomUUID(), cage)).json<Cage>();
      const toy = { name };
      const key = randomUUID();
      const first = await post(`/cages/${id}/toys`, key, toy);
      expect(first.text).toContain('"toy"');
      await app.dataSource.query('DELETE FROM "toys"');
      await app.dataSource.query('DELETE FROM "cages"');
      const second = await post(`/cages/${id}/toys`, key, toy);
      expect(getRepeated(second)).toEqual(getRepeated(first));
      expect(second.headers['idempotency-replayed']).toBe('true');
      expect(await post(`/cages/${id}/toys`, key, { ...toy, name: 'bone' })).toBeError(
        'IDEMPOTENCY_KEY_REUSED',
      );
      expect(await post(`/cages/${id}/toys`, randomUUID(), toy)).toBeError('NOT_FOUND');
    });
  });
});
