/** What docs/as-in-nest.md says, with the packages of Nest. */
import { hash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import {
  type ArgumentsHost,
  Body,
  Catch,
  ClassSerializerInterceptor,
  ConflictException,
  Controller,
  DefaultValuePipe,
  Get,
  Headers,
  HttpCode,
  type MessageEvent,
  type MiddlewareConsumer,
  type NestInterceptor,
  type NestModule as WithMiddleware,
  type OnModuleInit,
  Param,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseIntPipe,
  type PipeTransform,
  Post,
  Query,
  RawBody,
  RequestMethod,
  ServiceUnavailableException,
  Sse,
  StreamableFile,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR, BaseExceptionFilter } from '@nestjs/core';
import { CacheInterceptor, CacheModule } from '@nestjs/cache-manager';
import { ApiBearerAuth } from '@nestjs/swagger';
import {
  HealthCheck,
  type HealthCheckResult,
  HealthCheckService,
  HealthIndicatorService,
  TerminusModule,
} from '@nestjs/terminus';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Exclude, Expose, Type } from 'class-transformer';
import { MinLength } from 'class-validator';
import type { NextFunction, Request, Response } from 'express';
import { map, type Observable, of } from 'rxjs';
import { DataSource, Repository } from 'typeorm';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import {
  ApiError,
  BinaryBody,
  type CachedJsonResponse,
  Feature,
  Operation,
  Property,
  Public,
} from '../../../src/platform/index.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { startApp, useApp } from '../support/app.js';
import { DATABASE } from '../support/databases.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';

class User {
  name = 'Ann';
  @Exclude() password = 'secret';
}
class Address {
  @Property({ type: 'string', maxLength: 20 }) street!: string;
}
class Visit {
  @Property({ type: 'string', format: 'date-time' }) @Type(() => Date) at!: Date;
}
class Shop {
  @MinLength(2) name!: string;
  @Property({ type: 'string', format: 'date-time' }) @Type(() => Date) openedAt!: Date;
  @Property({ type: 'array', items: { type: 'string', format: 'date' }, optional: true })
  @Type(() => Date)
  holidays?: Date[];
  @Property({ type: () => Visit, optional: true }) visit?: Visit;
}
class Owner {
  @Property({ type: 'string' }) @Expose({ name: 'first_name' }) firstName!: string;
}
/** A class without rules, to which a pipe converts an id. */
class Account {
  constructor(readonly id: string) {}
}
const accountPipe: PipeTransform<string, Account> = { transform: (id) => new Account(id) };
/** Converts a duration, such as `5m`, to seconds. */
const durationPipe: PipeTransform<string | undefined, number> = {
  transform: (text = '0m') => parseInt(text) * 60,
};

const setHeader = (_request: Request, response: Response, next: NextFunction): void => {
  response.setHeader('x-middleware', 'yes');
  next();
};
/** Puts what a handler returned into an object. */
const wrap: NestInterceptor = {
  intercept: (_context, next) => next.handle().pipe(map((data: unknown) => ({ data }))),
};
/** A filter for all errors, as Nest documents it, which sends the headers of those of the platform. */
@Catch()
class AllExceptionsFilter extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    if (error instanceof ApiError) host.switchToHttp().getResponse<Response>().set(error.headers);
    super.catch(error, host);
  }
}

@Controller('nest')
@ApiBearerAuth()
class NestController {
  private calls = 0;

  constructor(
    private readonly categories: CategoriesService,
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly dataSource: DataSource,
  ) {}

  @Get('user')
  @UseInterceptors(ClassSerializerInterceptor)
  getUser(): User {
    return new User();
  }

  @Get('serialized')
  @UseInterceptors(ClassSerializerInterceptor)
  listSerialized(): Promise<CachedJsonResponse> {
    return this.categories.list();
  }

  @Get('filtered')
  @UseFilters(AllExceptionsFilter)
  getFiltered(): never {
    const headers = { 'Retry-After': '7' };
    throw new ApiError('NOT_FOUND', 'There is no such shop.', { headers });
  }

  @Get('cached-list')
  @UseInterceptors(CacheInterceptor)
  listCached(): Promise<CachedJsonResponse> {
    return this.categories.list();
  }

  @Get('cached')
  @UseInterceptors(CacheInterceptor)
  getCached(): { calls: number } {
    return { calls: ++this.calls };
  }

  @Get('pages')
  getPage(
    @Query('page', new DefaultValuePipe(1), ParseIntPipe) page: number,
    @Query('archived', new ParseBoolPipe({ optional: true })) archived?: boolean,
    @Query('for', durationPipe) seconds?: number,
    @Query('ids', new ParseArrayPipe({ items: Number, optional: true })) ids?: number[],
    @Query('size') size?: number,
    @Query('sorted') sorted?: boolean,
    @Query('name') name?: string,
    @Headers('x-count') count?: number,
  ): object {
    return { page, archived, seconds, ids, size, sorted, name, count };
  }

  @Get('accounts/:id/:page')
  getAccount(@Param('id', accountPipe) account: Account, @Param('page') page: number): object {
    return { isAccount: account instanceof Account, id: account.id, page };
  }

  @Post('names')
  createName(
    @Body('name') name: string,
    @Body('age', new ParseIntPipe({ optional: true })) age?: number,
    @Body('tags') tags?: string[],
    @Body('address') address: Address = new Address(),
  ): object {
    return { name, age, tags, street: address.street };
  }

  @Post('shops')
  @HttpCode(202)
  @Operation({ operationId: 'createShop', response: 'The shop.' })
  createShop(@Body() shop: Shop): object {
    return { isDate: shop.openedAt instanceof Date };
  }

  @Post('owners')
  createOwner(@Body() owner: Owner): Owner {
    return owner;
  }

  @Sse('events')
  getEvents(): Observable<MessageEvent> {
    return of({ data: 'dog' });
  }

  @Get('transaction')
  query(): Promise<unknown> {
    return this.dataSource.transaction(() => this.dataSource.query('SELECT 1 AS "one"'));
  }

  @Get('unavailable')
  getUnavailable(): never {
    throw new ServiceUnavailableException('The shop is closed until Monday.');
  }

  @Get('messages')
  getMessages(): never {
    throw new ConflictException({ message: ['The shop is closed.', 'It is full.'] });
  }

  @Get('circular')
  getCircular(): never {
    const report: Record<string, unknown> = { status: 'down', list: Array(5_000).fill('ä') };
    report['self'] = report;
    throw new ServiceUnavailableException(report);
  }

  @Get('health')
  @HealthCheck()
  getHealth(): Promise<HealthCheckResult> {
    return this.health.check([
      () => this.indicators.check('till').down({ reason: 'out of paper' }),
    ]);
  }

  @Post('webhook')
  @Public()
  receive(@RawBody() body: Buffer, @Body() event: object): object {
    return { hash: hash('sha256', body), event };
  }

  @Post('documents')
  @Operation({
    operationId: 'convertDocument',
    status: 201,
    response: 'The document.',
    contentTypes: ['application/pdf'],
  })
  convert(@BinaryBody({ limit: 1_000, contentTypes: ['application/pdf'] }) pdf: Buffer) {
    return new StreamableFile(pdf);
  }
}

@Controller({ path: 'nest/hosts', host: 'admin.example.com' })
class HostController {
  @Get()
  getHost(): object {
    return { host: 'admin' };
  }
}

@Feature({
  tag: { name: 'nest', description: 'What Nest engineers write.' },
  imports: [
    CacheModule.register(),
    TerminusModule.forRoot({ logger: false }),
    TypeOrmModule.forFeature([CategoryEntity]),
  ],
  controllers: [NestController, HostController],
  providers: [
    CategoriesService,
    { provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor },
  ],
})
class NestModule implements WithMiddleware {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(setHeader).forRoutes({ path: '*path', method: RequestMethod.ALL });
  }
}

@Feature({
  tag: [],
  imports: [CacheModule.register()],
  providers: [{ provide: APP_INTERCEPTOR, useClass: CacheInterceptor }],
})
class CachedModule {}

@Feature({
  tag: [],
  providers: [
    { provide: APP_INTERCEPTOR, useValue: wrap },
    { provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor },
  ],
})
class WrappedModule {}

const app = useApp({ features: [CategoriesModule, NestModule] });

const get = (path: string, key = app.key): Promise<HttpResponse> =>
  app.send('GET', `/v1/nest/${path}`, { key, headers: { 'x-count': '7' } });

const post = (path: string, body: string | Buffer, headers = {}): Promise<HttpResponse> =>
  app.send('POST', `/v1/nest/${path}`, { headers, body });

describe('ClassSerializerInterceptor', () => {
  it('removes @Exclude() properties from a response when it is both global and on the route', async () => {
    expect((await get('user')).text).toBe('{"name":"Ann"}');
  });

  it.each(['/v1/categories', '/v1/nest/serialized'])('leaves lists alone: %s', async (path) => {
    for (let index = 0; index < 12; index++) await app.categories.create('x'.repeat(100));
    for (const [encoding, decode] of [
      ['identity', (body: Buffer) => body],
      ['gzip', gunzipSync],
    ] as const) {
      const send = (headers = {}): Promise<HttpResponse> =>
        sendRequest(app.url + path, {
          headers: { ...jsonHeaders(app.key), 'accept-encoding': encoding, ...headers },
        });
      const list = await send();
      expect(list).toMatchObject({
        status: 200,
        headers: { 'cache-control': 'private, no-cache' },
      });
      expect(JSON.parse(String(decode(list.body)))).toEqual(await app.categories.getAll());
      const again = await send({ 'if-none-match': list.headers.etag });
      expect(again.status).toBe(304);
    }
  });
});

describe('CacheInterceptor', () => {
  it('stores what an operation returned to an API key, and not for others', async () => {
    const { key: other } = await app.app.get(ApiKeysService).create('other');
    const first = await get('cached');
    expect((await get('cached')).text).toBe(first.text);
    expect((await get('cached', other)).text).not.toBe(first.text);
  });

  it('stores no readiness, also as APP_INTERCEPTOR', async () => {
    const cached = await startApp({ features: [CategoriesModule, CachedModule] });
    const getState = async (path: string): Promise<unknown> => {
      await cached.send('GET', path);
      return (await cached.send('GET', path)).headers['x-cache'];
    };
    const states = [await getState('/livez'), await getState('/readyz')];
    await cached.stop();
    expect(states).toEqual(['HIT', undefined]);
  });

  it('stores no list', async () => {
    await get('cached-list');
    await app.categories.create('new');
    const list = await get('cached-list');
    expect(list.text).toBe((await app.categories.list()).text);
  });
});

describe('an interceptor that maps responses', () => {
  it('receives the items of a list', async () => {
    const wrapped = await startApp({ features: [CategoriesModule, WrappedModule] });
    await wrapped.categories.create('dog');
    const list = await wrapped.send('GET', '/v1/categories');
    await wrapped.stop();
    expect(list.json()).toEqual({ data: [{ id: 1, name: 'dog' }] });
  });
});

describe('a filter for all errors', () => {
  it('receives errors of the platform as an HttpException, and sends their headers', async () => {
    const response = await get('filtered');
    expect(response).toBeError('NOT_FOUND', 'There is no such shop.');
    expect(response.headers['retry-after']).toBe('7');
  });
});

describe('middleware for all paths', () => {
  it.each([
    ['GET', '/v1/nest/user', 200, undefined],
    ['GET', '/v1/unknown', 404, undefined],
    ['PUT', '/v1/nest/user', 405, 'GET, HEAD'],
    // The path of another host.
    ['GET', '/v1/nest/hosts', 404, undefined],
  ])('runs, and adds no operations: %s %s returns %d', async (method, path, status, allow) => {
    const { headers, ...response } = await app.send(method, path);
    expect({ ...response, ...headers }).toMatchObject({ status, 'x-middleware': 'yes' });
    expect(headers.allow).toBe(allow);
  });

  it('adds no routes to the log', async () => {
    const logger = new MemoryLogger();
    const features = [CategoriesModule, NestModule];
    const own = await startApp({ features, config: { logLevel: 'debug' }, logger });
    await own.send('GET', '/v1/unknown');
    await own.stop();
    expect(logger.text).toContain("'GET not_found 404");
  });
});

describe('startup', () => {
  class RefusedService implements OnModuleInit {
    constructor(@InjectRepository(CategoryEntity) readonly rows: Repository<CategoryEntity>) {}

    async onModuleInit(): Promise<void> {
      await this.rows.count();
    }
  }
  it('rejects a query before the database is open', async () => {
    @Feature({ tag: [], entities: [CategoryEntity], providers: [RefusedService] })
    class RefusedModule {}
    await expect(startApp({ features: [RefusedModule] })).rejects.toThrow(
      'The database is not open yet: query it in requests, in jobs, or in onApplicationBootstrap, which fails while the database is down.',
    );
  });
});

describe('pipes of parameters', () => {
  it.each([
    ['', { page: 1, seconds: 0 }],
    ['page=2&archived=true&for=5m&ids=1,2', { page: 2, archived: true, seconds: 300, ids: [1, 2] }],
    ['size=1.5&sorted=false&name=7', { page: 1, seconds: 0, size: 1.5, sorted: false, name: '7' }],
  ])('receive texts as they were sent, and types convert texts: %s', async (query, expected) => {
    expect((await get(`pages?${query}`)).json()).toEqual({ count: '7', ...expected });
  });

  it.each([
    ['page=abc', 'BAD_REQUEST', /numeric string/],
    ['page=', 'BAD_REQUEST', /numeric string/],
    ['archived=x', 'BAD_REQUEST', /boolean string/],
    ['size=abc', 'VALIDATION_FAILED', 'size must be a number.'],
    ['size=', 'VALIDATION_FAILED', 'size must be a number.'],
    ['size=1&size=2', 'VALIDATION_FAILED', 'size must be a number.'],
    ['sorted=yes', 'VALIDATION_FAILED', 'sorted must be true or false.'],
    ['name=a&name=b', 'VALIDATION_FAILED', 'name must be a string.'],
    ['ids=%00', 'VALIDATION_FAILED', 'ids must not contain a NUL character.'],
  ] as const)('reject what does not parse: %s', async (query, code, message) => {
    expect(await get(`pages?${query}`)).toBeError(code, message);
  });

  it('convert an id to an object', async () => {
    const expected = { isAccount: true, id: 'a', page: 3 };
    expect((await get('accounts/a/3')).json()).toEqual(expected);
    expect(await get('accounts/a/x')).toBeError('VALIDATION_FAILED', 'page must be a number.');
  });
});

describe("@Body('name')", () => {
  it('passes a property of the body, converted by its pipes', async () => {
    const body = { name: 'Ann', age: '7', tags: ['a'], address: { street: 'Elm' }, other: 1 };
    const response = await post('names', JSON.stringify(body));
    expect(response.json()).toEqual({ name: 'Ann', age: 7, tags: ['a'], street: 'Elm' });
  });

  it.each([
    [{ name: 7 }, 'VALIDATION_FAILED', 'name must be a string.'],
    [{ name: null }, 'VALIDATION_FAILED', 'name must be a string.'],
    [{ name: 'a\0' }, 'VALIDATION_FAILED', 'name must not contain a NUL character.'],
    [{ age: 'x' }, 'BAD_REQUEST', /numeric string/],
    [{ address: { street: 1 } }, 'VALIDATION_FAILED', 'address.street must be a string.'],
    [{}, 'VALIDATION_FAILED', 'address.street is missing.'],
  ] as const)('validates a property by its type: %j', async (body, code, message) => {
    const valid = { name: 'Ann', address: { street: 'Elm' } };
    const text = JSON.stringify(Object.keys(body).length === 0 ? body : { ...valid, ...body });
    expect(await post('names', text)).toBeError(code, message);
  });
});

describe('an exception of Nest', () => {
  it('keeps its message in the error body', async () => {
    const closed = await get('unavailable');
    expect(closed).toBeError('SERVICE_UNAVAILABLE', 'The shop is closed until Monday.');
    expect(await get('messages')).toBeError('CONFLICT', 'The shop is closed.; It is full.');
    const circular = await get('circular');
    expect(circular).toBeError('SERVICE_UNAVAILABLE', /^<ref \*1> \{ status: 'down'/);
    expect(circular.body.length).toBeLessThan(4096);
  });

  it('keeps the report of terminus in the error body', async () => {
    const health = await get('health');
    expect(health).toBeError('SERVICE_UNAVAILABLE', /error: \{ till: \{.* reason: 'out of paper'/);
    const { paths } = await app.getDocument();
    expect(paths['/nest/health']!.get!.responses['503']).toMatchObject({
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    });
  });
});

describe('a DTO', () => {
  const shop = { name: 'Zoo', openedAt: '2026-11-01T12:00:00Z' };

  it('accepts decorators of class-validator, which are not in the OpenAPI document', async () => {
    expect(await post('shops', JSON.stringify({ ...shop, name: 'Z' }))).toBeError(
      'VALIDATION_FAILED',
      'name must be longer than or equal to 2 characters.',
    );
    const document = await app.getDocument();
    expect(document.components?.schemas?.['Shop']).toMatchObject({
      required: ['openedAt'],
      additionalProperties: false,
    });
    expect(Object.keys(document.paths['/nest/shops']!.post!.responses)).not.toContain('202');
  });

  it('receives a date with @Type(), and loses a property that @Expose() renames', async () => {
    const nested = { holidays: ['2026-12-25'], visit: { at: shop.openedAt } };
    for (const body of [shop, { ...shop, ...nested }]) {
      const response = await post('shops', JSON.stringify(body));
      expect(response).toMatchObject({ status: 202, text: '{"isDate":true}' });
    }
    expect((await post('owners', '{"firstName":"Ann"}')).text).toBe('{}');
  });
});

describe('server-sent events', () => {
  it('arrive at the client', async () => {
    const response = await get('events');
    expect(response.headers['content-type']).toBe('text/event-stream');
    expect(response.text).toContain('data: dog\n\n');
  });
});

describe('a query outside of the transaction that waits for it', () => {
  it('returns 503 on SQLite, which has one connection, and logs the reason', async () => {
    const waits = DATABASE === 'sqlite';
    const logger = new MemoryLogger();
    const own = await startApp({ features: [CategoriesModule, NestModule], logger });
    expect((await own.send('GET', '/v1/nest/transaction')).status).toBe(waits ? 503 : 200);
    await own.stop();
    expect(/failed: The transaction took .* than its manager/.test(logger.text)).toBe(waits);
  });
});

describe('a request body', () => {
  it('reaches the handler also as raw bytes, for the signature of a webhook', async () => {
    const body = '{ "event": 1 }';
    const response = await post('webhook', body, { authorization: '' });
    expect(response.json()).toEqual({ hash: hash('sha256', body), event: { event: 1 } });
  });
});

describe('a file', () => {
  it('travels in both directions with the documented type', async () => {
    const response = await post('documents', '%PDF-', { 'content-type': 'application/pdf' });
    expect(response).toMatchObject({ status: 201, text: '%PDF-' });
    expect(response.headers['content-type']).toBe('application/pdf');
  });
});

describe('@ApiBearerAuth()', () => {
  it('documents the API key', async () => {
    const { paths } = await app.getDocument();
    const { security, responses } = paths['/nest/user']!.get!;
    expect(security).toBeUndefined();
    expect(Object.keys(responses)).toEqual(['200', '401', '403', '429', '500', '503']);
    expect(paths['/nest/webhook']!.post!.security).toEqual([]);
  });
});
