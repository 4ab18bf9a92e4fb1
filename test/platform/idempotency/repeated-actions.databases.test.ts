import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type CallHandler,
  ClassSerializerInterceptor,
  Controller,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { OpenAPIObject } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { map, type Observable } from 'rxjs';
import { DataSource } from 'typeorm';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CONFIG, type Config } from '../../../src/platform/config/config.js';
import { ApiError } from '../../../src/platform/errors/api-error.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { IdempotencyKey } from '../../../src/platform/idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../../../src/platform/idempotency/idempotency-records.js';
import { IdParam } from '../../../src/platform/resource/operation/id-param.decorator.js';
import { Operation } from '../../../src/platform/resource/operation/operation.decorator.js';
import {
  deleteReturning,
  insertReturning,
} from '../../../src/platform/database/statements/row-statements.js';
import { Versioned } from '../../../src/platform/http/responses/versioned.js';
import { ReturnsEtag } from '../../../src/platform/resource/operation/versioned.js';
import { startApp, useApp } from '../support/app.js';
import { describeOnPostgres } from '../support/databases.js';
import { type Cage, CagesModule } from '../support/cages.module.js';
import type { HttpResponse } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';

const action = { status: 201, response: 'The category that takes its place.' };
const NOT_FOR_SALE = { code: 'NOT_FOR_SALE', status: 409, description: 'it is not for sale' };
const gone = (): ApiError => new ApiError(NOT_FOR_SALE, 'It is not for sale.');

/** An interceptor that Nest instantiates. */
@Injectable()
class Wrap implements NestInterceptor {
  constructor(@Inject(CONFIG) private readonly config: Config) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<object> {
    return next.handle().pipe(map((body: object) => ({ ...body, limit: this.config.bodyLimit })));
  }
}

class Inspection {
  at = new Date();
  @Transform(() => 'of a class') kind = 'of JSON';
}

/** When the actions that hold their transactions may end. */
const mayEnd = Promise.withResolvers<void>();

/** What the next request throws after its transaction. */
let failure: Error | undefined;

/** Actions that replace a category, each with a rule that their own success breaks. An interceptor changes the responses. */
@Controller('categories/:id')
@UseInterceptors(Wrap)
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

  /** The rule has the code of an invalid request. */
  @Post('exchange-checked')
  @ReturnsEtag()
  @Operation({ operationId: 'exchangeChecked', ...action, location: '../../{id}' })
  exchangeChecked(
    @IdParam('id') id: number,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Versioned<CategoryEntity>> {
    return transactionOnce(this.dataSource, key, async (manager) => {
      const categories = manager.getRepository(CategoryEntity);
      if ((await deleteReturning(categories, { id })) === undefined)
        throw new ApiError('VALIDATION_FAILED', 'It is not for sale.');
      return new Versioned(7, await insertReturning(categories, { name: `after ${id}` }));
    });
  }

  /** Returns no body. */
  @Post('touch')
  @Operation({ operationId: 'touch', status: 204, response: 'It was touched.' })
  touch(@IdempotencyKey() key?: IdempotencyKey): Promise<void> {
    return transactionOnce(this.dataSource, key, async () => undefined);
  }

  /** Holds its transaction until it may end. */
  @Post('hold')
  @Operation({ operationId: 'hold', status: 204, response: 'It was held.' })
  hold(@IdempotencyKey() key?: IdempotencyKey): Promise<void> {
    return transactionOnce(this.dataSource, key, () => mayEnd.promise);
  }

  /** Returns an instance of a class. */
  @Post('inspect')
  @UseInterceptors(ClassSerializerInterceptor)
  @Operation({ operationId: 'inspect', ...action })
  inspect(@IdempotencyKey() key?: IdempotencyKey): Promise<Inspection> {
    return transactionOnce(this.dataSource, key, async () => new Inspection());
  }

  /** May fail after its transaction. */
  @Post('exchange-and-fail')
  @Operation({ operationId: 'exchangeAndFail', ...action })
  async exchangeAndFail(
    @IdParam('id') id: number,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<CategoryEntity> {
    const result = await this.exchange(id, key);
    const error = failure;
    failure = undefined;
    if (error !== undefined) throw error;
    return result;
  }
}

@Feature({
  tag: { name: 'actions', description: 'Actions.' },
  controllers: [ActionsController],
  errorCodes: [NOT_FOR_SALE],
})
class ActionsModule {}

const logger = new MemoryLogger();
const features = [CategoriesModule, CagesModule, ActionsModule];
const app = useApp({
  features,
  logger,
  config: { corsOrigins: ['https://app.example'] },
});

const post = (path: string, key: string, body?: object): Promise<HttpResponse> =>
  app.send('POST', `/v1${path}`, { headers: { 'Idempotency-Key': key }, ...(body && { body }) });

/** What a repeated response has in common with the first. */
const getRepeated = ({ status, text, headers }: HttpResponse): object => ({
  status,
  text,
  etag: headers.etag,
  location: headers.location,
  replacedBy: headers['x-replaced-by'],
});

it('sends the headers that an operation declares, documents them, and lets browsers read them', async () => {
  const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
  const { headers, text } = await app.send('POST', `/v1/categories/${id}/exchange`, {
    headers: { origin: 'https://app.example' },
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
  it('repeats its response although the changed row no longer meets the rule', async () => {
    const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
    const key = randomUUID();
    const first = await post(`/categories/${id}/${name}`, key);
    expect(first.status).toBe(201);
    expect(first.json()).toHaveProperty('limit');
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

describeOnPostgres('copies of an action in progress', () => {
  it('leave the connections of the pool to other requests', async () => {
    const key = randomUUID();
    const copies = Array.from({ length: 20 }, () => post('/categories/1/hold', key));
    // The copies arrive.
    await delay(300);
    const other = await post('/categories/1/touch', randomUUID());
    mayEnd.resolve();
    expect(other.status).toBe(204);
    const responses = await Promise.all(copies);
    expect(responses.map(({ status }) => status)).toEqual(copies.map(() => 204));
  });
});

it.each([
  ['without a body', 'touch', 204],
  ['that is an instance of a class', 'inspect', 201],
])(
  'an action with a response %s has the same one when it is repeated',
  async (_what, name, status) => {
    const key = randomUUID();
    const first = await post(`/categories/1/${name}`, key);
    expect(first.status).toBe(status);
    const second = await post(`/categories/1/${name}`, key);
    expect(second.headers['idempotency-replayed']).toBe('true');
    expect(getRepeated(second)).toEqual(getRepeated(first));
  },
);

describe('an action that fails after its transaction', () => {
  it.each([
    ['INTERNAL_ERROR', () => new TypeError('after the commit'), /after the commit/],
    ['NOT_FOR_SALE', gone, /^$/],
    ['VALIDATION_FAILED', () => new ApiError('VALIDATION_FAILED', 'after the commit'), /^$/],
  ])(
    'returns its error, %s, logged if unexpected, and the response when it is repeated',
    async (code, createError, logged) => {
      logger.entries.length = 0;
      const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
      const key = randomUUID();
      failure = createError();
      const first = await post(`/categories/${id}/exchange-and-fail`, key);
      expect(first.json()).toMatchObject({ code });
      expect(first.headers).not.toHaveProperty('idempotency-replayed');
      expect(logger.text).toMatch(logged);
      const second = await post(`/categories/${id}/exchange-and-fail`, key);
      expect([second.status, second.headers['idempotency-replayed']]).toEqual([201, 'true']);
      expect(second.json()).toMatchObject({ name: `after ${id}`, limit: app.config.bodyLimit });
    },
  );
});

it('executes one of twenty actions with one key at once, on two instances', async () => {
  const other = await startApp({ features, database: { config: app.config.database } });
  const { id } = (await app.categories.create('for sale')).json<{ id: number }>();
  const headers = { 'Idempotency-Key': randomUUID() };
  const requests: Promise<HttpResponse>[] = [];
  await app.dataSource.transaction(async (manager) => {
    await manager.query(`UPDATE "categories" SET "name" = 'locked' WHERE "id" = ${id}`);
    const path = `/v1/categories/${id}/exchange`;
    for (const each of Array.from({ length: 10 }, () => [app, other]).flat())
      requests.push(each.send('POST', path, { headers, key: app.key }));
    // On PostgreSQL, both instances look for a record, and wait for the lock of the category.
    await delay(300);
  });
  const responses = await Promise.all(requests);
  await other.stop();
  const texts = new Set(responses.map(({ status, text }) => `${status} ${text}`));
  expect([...texts]).toEqual([`201 ${responses[0]!.text}`]);
  expect(responses.filter((each) => each.headers['idempotency-replayed'])).toHaveLength(19);
});

describe('a create request below a resource that is gone', () => {
  // With the name required, a rule looks for the cage.
  it.each(['ball', 'required'])('repeats its response, for a %s', async (name) => {
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
