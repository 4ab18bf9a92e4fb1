/** What docs/as-in-nest.md says, with the packages of Nest. */
import { hash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import {
  Body,
  ClassSerializerInterceptor,
  ConflictException,
  Controller,
  DefaultValuePipe,
  Get,
  Headers,
  Param,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseIntPipe,
  type PipeTransform,
  Post,
  Query,
  RawBody,
  ServiceUnavailableException,
  StreamableFile,
  UploadedFile,
  UseInterceptors,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { CacheInterceptor, CacheModule } from '@nestjs/cache-manager';
import { FileInterceptor } from '@nestjs/platform-express';
import { ApiExcludeEndpoint, type OpenAPIObject } from '@nestjs/swagger';
import {
  HealthCheck,
  type HealthCheckResult,
  HealthCheckService,
  HealthIndicatorService,
  TerminusModule,
} from '@nestjs/terminus';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Exclude } from 'class-transformer';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import {
  BinaryBody,
  type CachedJsonResponse,
  Feature,
  Operation,
  Property,
  Public,
} from '../../src/platform/index.js';
import { CategoryEntity } from '../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import { ApiKeysService } from '../../src/platform/auth/keys/api-keys.service.js';
import { startApp, useApp } from './support/app.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './support/http-client.js';

class User {
  name = 'Ann';
  @Exclude() password = 'secret';
}
class Address {
  @Property({ type: 'string', maxLength: 20 }) street!: string;
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

@Controller('nest')
class NestController {
  private calls = 0;

  constructor(
    private readonly categories: CategoriesService,
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
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

  @Post('addresses')
  createAddresses(@Body(new ParseArrayPipe({ items: Address })) addresses: Address[]): Address[] {
    return addresses;
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

  @Post('files')
  @UseInterceptors(FileInterceptor('file'))
  upload(@UploadedFile() file: unknown): unknown {
    return file;
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

@Controller({ path: 'internal', version: VERSION_NEUTRAL })
class InternalController {
  @Get('state')
  @Public()
  @ApiExcludeEndpoint()
  getState(): object {
    return { state: 'ok' };
  }
}

@Feature({
  tag: { name: 'nest', description: 'What Nest engineers write.' },
  imports: [
    CacheModule.register(),
    TerminusModule.forRoot({ logger: false }),
    TypeOrmModule.forFeature([CategoryEntity]),
  ],
  controllers: [NestController, InternalController],
  providers: [
    CategoriesService,
    { provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor },
  ],
})
class NestModule {}

@Feature({
  tag: [],
  imports: [CacheModule.register()],
  providers: [{ provide: APP_INTERCEPTOR, useClass: CacheInterceptor }],
})
class CachedModule {}

const app = useApp({ features: [CategoriesModule, NestModule] });

const get = (path: string, key = app.key): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/nest/${path}`, { headers: { ...jsonHeaders(key), 'x-count': '7' } });

const post = (path: string, body: string | Buffer, headers = {}): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/nest/${path}`, {
    method: 'POST',
    headers: { ...jsonHeaders(app.key), ...headers },
    body,
  });

describe('ClassSerializerInterceptor', () => {
  it('removes properties from objects, for a route and for all of them', async () => {
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

  it('never stores the readiness, also as APP_INTERCEPTOR', async () => {
    const cached = await startApp({ features: [CategoriesModule, CachedModule] });
    const getState = async (path: string): Promise<unknown> => {
      await cached.send('GET', path);
      return (await cached.send('GET', path)).headers['x-cache'];
    };
    const states = [await getState('/livez'), await getState('/readyz')];
    await cached.stop();
    expect(states).toEqual(['HIT', undefined]);
  });

  it('never stores a list', async () => {
    await get('cached-list');
    await app.categories.create('new');
    const list = await get('cached-list');
    expect(list.text).toBe((await app.categories.list()).text);
  });
});

describe('pipes of parameters', () => {
  it.each([
    ['', { page: 1, seconds: 0 }],
    ['page=2&archived=true&for=5m&ids=1,2', { page: 2, archived: true, seconds: 300, ids: [1, 2] }],
    ['size=1.5&sorted=false&name=7', { page: 1, seconds: 0, size: 1.5, sorted: false, name: '7' }],
  ])('get the text as it was sent, and types convert it: %s', async (query, expected) => {
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

  it('may convert an id to an object', async () => {
    const expected = { isAccount: true, id: 'a', page: 3 };
    expect((await get('accounts/a/3')).json()).toEqual(expected);
    expect(await get('accounts/a/x')).toBeError('VALIDATION_FAILED', 'page must be a number.');
  });
});

describe("@Body('name')", () => {
  it('is the property of the body, converted by its own pipes', async () => {
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
  ] as const)('is validated by its type: %j', async (body, code, message) => {
    const valid = { name: 'Ann', address: { street: 'Elm' } };
    const text = JSON.stringify(Object.keys(body).length === 0 ? body : { ...valid, ...body });
    expect(await post('names', text)).toBeError(code, message);
  });
});

describe('an exception of Nest', () => {
  it('has its message in the error body', async () => {
    const closed = await get('unavailable');
    expect(closed).toBeError('SERVICE_UNAVAILABLE', 'The shop is closed until Monday.');
    expect(await get('messages')).toBeError('RESOURCE_IN_USE', 'The shop is closed.; It is full.');
    const circular = await get('circular');
    expect(circular).toBeError('SERVICE_UNAVAILABLE', /^<ref \*1> \{ status: 'down'/);
    expect(circular.body.length).toBeLessThan(4096);
  });

  it('has what terminus reports in the error body', async () => {
    const health = await get('health');
    expect(health).toBeError('SERVICE_UNAVAILABLE', /error: \{ till: \{.* reason: 'out of paper'/);
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(paths['/nest/health']!.get!.responses['503']).toMatchObject({
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    });
  });
});

describe('a body', () => {
  it('that is an array is not supported', async () => {
    expect(await post('addresses', '[]')).toBeError('VALIDATION_FAILED', /must be a JSON object/);
  });

  it('is also raw, for the signature of a webhook', async () => {
    const body = '{ "event": 1 }';
    const response = await post('webhook', body, { authorization: '' });
    expect(response.json()).toEqual({ hash: hash('sha256', body), event: { event: 1 } });
  });
});

describe('a file', () => {
  it('of a form is not supported', async () => {
    const type = 'multipart/form-data; boundary=x';
    const response = await post('files', '--x--', { 'content-type': type });
    expect(response).toBeError('UNSUPPORTED_MEDIA_TYPE');
  });

  it('is sent and received with the documented type', async () => {
    const response = await post('documents', '%PDF-', { 'content-type': 'application/pdf' });
    expect(response).toMatchObject({ status: 201, text: '%PDF-' });
    expect(response.headers['content-type']).toBe('application/pdf');
  });
});

describe('an operation without a key', () => {
  it('may be absent from the OpenAPI document', async () => {
    const response = await sendRequest(`${app.url}/internal/state`);
    expect(response.json()).toEqual({ state: 'ok' });
    expect((await app.http().get('/openapi.json')).text).not.toContain('/internal/state');
  });
});
