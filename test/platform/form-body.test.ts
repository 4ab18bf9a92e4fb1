import { gzipSync } from 'node:zlib';
import { Controller, Post, Put } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import type { ErrorCode } from '../../src/platform/errors/error-codes.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../../src/platform/idempotency/idempotency-records.js';
import { FormBody } from '../../src/platform/resource/operation/form-body.decorator.js';
import { Operation } from '../../src/platform/resource/operation/operation.decorator.js';
import { Property } from '../../src/platform/validation/property.js';
import { useApp } from './support/app.js';
import { type HttpResponse, sendRequest } from './support/http-client.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';

const TEXT = { type: 'string', optional: true } as const;

class Price {
  @Property({ type: 'number' }) amount!: number;
  @Property(TEXT) currency?: string;
}
class Card {
  @Property({ const: 'card' }) kind!: string;
  @Property({ type: 'integer' }) digits!: number;
}
class Order {
  @Property({ type: 'string', readOnly: true }) id!: string;
  @Property(TEXT) note?: string;
  @Property({ type: 'integer', optional: true }) count?: number;
  @Property({ type: 'number', optional: true }) weight?: number;
  @Property({ type: 'boolean', optional: true }) gift?: boolean;
  @Property({ type: 'integer', optional: true, nullable: true }) floor?: number | null;
  @Property({ type: 'integer', default: 7 }) days?: number;
  @Property({ type: 'array', items: { type: 'integer' }, optional: true }) sizes?: number[];
  @Property({ type: 'array', items: { type: 'string' }, optional: true }) 'tags[]'?: string[];
  @Property({ type: () => Price, optional: true }) price?: Price;
  @Property({ type: 'array', items: { type: () => Price }, optional: true }) prices?: Price[];
  @Property({
    type: 'array',
    items: { type: 'array', items: { type: 'integer' } },
    optional: true,
  })
  grid?: number[][];
  @Property({ type: 'object', additionalProperties: { type: 'integer' }, optional: true })
  stock?: Record<string, number>;
  @Property({ type: 'object', optional: true }) metadata?: Record<string, unknown>;
  @Property({
    oneOf: [() => Card],
    discriminator: { propertyName: 'kind', mapping: { card: () => Card } },
    optional: true,
  })
  payment?: Card;
}

@Controller('orders')
class OrdersController {
  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  @Post()
  @Operation({ operationId: 'createOrder', status: 201, response: 'It.', returns: Order })
  create(
    @FormBody({ type: () => Order }) order: Order,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<object> {
    return transactionOnce(this.dataSource, key, () =>
      Promise.resolve(Object.assign({ class: order.constructor.name }, order)),
    );
  }

  @Put()
  @Operation({ operationId: 'replaceOrder', response: 'It.' })
  replace(@FormBody({ type: () => Order }, { repeatsReadOnly: true }) order: Order): Order {
    return order;
  }
}

@Feature({
  tag: { name: 'orders', description: 'Forms' },
  entities: [],
  migrations: [],
  controllers: [OrdersController],
  providers: [],
})
class OrdersModule {}

const app = useApp({ features: [CategoriesModule, OrdersModule] });
const FORM = 'application/x-www-form-urlencoded';

const send = (
  body: Buffer | string,
  headers: object = {},
  method = 'POST',
): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/orders`, {
    method,
    headers: {
      Authorization: `Bearer ${app.key}`,
      'Content-Type': FORM,
      'Content-Length': Buffer.byteLength(body),
      ...headers,
    },
    body,
  });

const GZIP = { 'Content-Encoding': 'gzip' };

describe('an operation with a form', () => {
  it.each<[form: string, order: object]>([
    ['', {}],
    ['note=a+b%20c%26%C3%A4', { note: 'a b c&ä' }],
    ['note=a=b&&', { note: 'a=b' }],
    ['note', { note: '' }],
    ['note=007', { note: '007' }],
    ['count=-7&weight=1.50&gift=true', { count: -7, weight: 1.5, gift: true }],
    ['weight=1e3', { weight: 1000 }],
    ['sizes=1&sizes=2', { sizes: [1, 2] }],
    ['sizes=1', { sizes: [1] }],
    ['sizes[]=1&sizes%5B%5D=2', { sizes: [1, 2] }],
    ['sizes[1]=2&sizes[0]=1', { sizes: [1, 2] }],
    ['tags[]=a&tags[]=b', { 'tags[]': ['a', 'b'] }],
    ['grid[0][0]=1&grid[0][1]=2&grid[1][]=3', { grid: [[1, 2], [3]] }],
    ['price[amount]=5&price[currency]=', { price: { amount: 5, currency: '' } }],
    ['price={"amount":5}', { price: { amount: 5 } }],
    ['prices[0][amount]=5&prices[1][amount]=6', { prices: [{ amount: 5 }, { amount: 6 }] }],
    ['prices={"amount":5}&prices={"amount":6}', { prices: [{ amount: 5 }, { amount: 6 }] }],
    ['stock[5]=1&stock[a]=2', { stock: { 5: 1, a: 2 } }],
    ['metadata[a][b]=1', { metadata: { a: { b: '1' } } }],
    ['payment[digits]=4&payment[kind]=card', { payment: { digits: 4, kind: 'card' } }],
  ])('receives %j as %j', async (form, order) => {
    const response = await send(form);
    expect([response.status, response.text]).toEqual([201, expect.any(String)]);
    expect(response.json()).toEqual({ days: 7, class: 'Order', ...order });
  });

  const INVALID: readonly (readonly [form: string, message: RegExp])[] = [
    ['count=1.0', /^count must be an integer/],
    ['count=+1', /^count must be an integer/],
    ['count=1e3', /^count must be an integer/],
    ['count=9007199254740993', /^count must be an integer/],
    ['count=', /^count must be an integer/],
    ['floor=', /^floor must be an integer/],
    ['floor=null', /^floor must be an integer/],
    ['weight=0x10', /^weight must be a number/],
    ['weight=1e999', /^weight must be a number/],
    ['gift=1', /^gift must be true or false/],
    ['note=a&note=b', /^note must have one value\.$/],
    ['note[]=a', /^note must be a string/],
    ['note=a&note[b]=c', /^note must have one value\.$/],
    ['price=5', /^price must be an object/],
    ['price=[]', /^price must be an object/],
    ['price={"amount":"5"}', /^price.amount must be a number/],
    ['price=1&price[amount]=2', /^price must have one value\.$/],
    ['price[amount]=1&price[x]=2', /^unknown property price.x\.$/],
    ['prices[][amount]=1', /^prices must be repeated, or have the indexes 0 to 0\.$/],
    ['sizes=1&sizes[]=2', /^sizes must be repeated, or have the indexes 0 to 1\.$/],
    ['sizes[0]=1&sizes[2]=2', /^sizes must be repeated, or have the indexes 0 to 1\.$/],
    ['sizes[0]=1&sizes[0]=2', /^sizes\[0\] must have one value\.$/],
    ['sizes[00]=1', /^sizes must be repeated/],
    ['payment[kind]=cash', /^payment.kind must be one of card/],
    ['id=1', /^unknown property id\.$/],
    ['=1', /^unknown property \.$/],
    ['note[=1', /^unknown property note\[\.$/],
    ['price[amount]x=1', /^unknown property price\[amount\]x\.$/],
    ['__proto__=1', /^unknown property __proto__\.$/],
    ['__proto__[note]=1', /^unknown property __proto__\.$/],
    ['constructor[prototype]=1', /^unknown property constructor\.$/],
    ['metadata[__proto__][note]=1', /^unknown property metadata.__proto__\.$/],
    ['metadata={"constructor":1}', /^unknown property metadata.constructor\.$/],
    ['note=%00', /^note must not contain a NUL character\.$/],
    [`note${'[a]'.repeat(32)}=1`, /^Form nesting depth exceeds 32\.$/],
    [`metadata={"a":${'['.repeat(31)}${']'.repeat(31)}}`, /^JSON nesting depth exceeds 32\.$/],
    ['a['.repeat(50_000), /^unknown property a\[a\[.*…\.$/],
    [`a${'[]'.repeat(50_000)}`, /^Form nesting depth exceeds 32\.$/],
    [Array.from({ length: 10_000 }, (_, n) => `k${n}=`).join('&'), /^unknown property k0; .*k9\.$/],
    ['sizes=&'.repeat(14_000), /^sizes\[0\] must be an integer/],
    [Array.from({ length: 7_000 }, (_, n) => `grid[${n}]=`).join('&'), /^grid\[0\]/],
  ];
  it.each(INVALID.map(([form, message]) => [form.slice(0, 40), form, message] as const))(
    'rejects %j',
    async (_name, form, message) => {
      expect(await send(form)).toBeError('VALIDATION_FAILED', message);
      expect(Object.prototype).not.toHaveProperty('note');
    },
  );

  it.each<[string, Buffer | string, object, ErrorCode, RegExp]>([
    ['an invalid percent-encoding', 'note=5%', {}, 'BAD_REQUEST', /percent-encoding/],
    ['one in a name', '%zz=1', {}, 'BAD_REQUEST', /percent-encoding/],
    ['encoded bytes that are not UTF-8', 'note=%ff', {}, 'BAD_REQUEST', /percent-encoding/],
    ['bytes that are not UTF-8', Buffer.from('note=\xff', 'latin1'), {}, 'BAD_REQUEST', /UTF-8/],
    ['a larger body', 'a'.repeat(102_401), {}, 'PAYLOAD_TOO_LARGE', /larger than 102400/],
    [
      'one larger after decompression',
      gzipSync('a'.repeat(102_401)),
      GZIP,
      'PAYLOAD_TOO_LARGE',
      /larger/,
    ],
    ['another encoding', 'no', GZIP, 'BAD_REQUEST', /^The body is not valid gzip\.$/],
    [
      'another charset',
      'note=a',
      { 'Content-Type': `${FORM}; charset=latin1` },
      'UNSUPPORTED_MEDIA_TYPE',
      /UTF-8/,
    ],
    ['JSON', '{}', { 'Content-Type': 'application/json' }, 'UNSUPPORTED_MEDIA_TYPE', /x-www-form/],
    [
      'multipart',
      'a',
      { 'Content-Type': 'multipart/form-data' },
      'UNSUPPORTED_MEDIA_TYPE',
      /x-www-form/,
    ],
  ])('rejects %s', async (_name, body, headers, code, message) => {
    expect(await send(body, headers)).toBeError(code, message);
  });

  it('is decompressed', async () => {
    const { status, text } = await send(gzipSync('note=a'), {
      ...GZIP,
      'Content-Type': `${FORM};charset=UTF-8`,
    });
    expect([status, text]).toEqual([201, expect.stringContaining('"note":"a"')]);
  });

  it('may repeat read-only properties in a replacement', async () => {
    const { status, text } = await send('id=1&note=a', {}, 'PUT');
    expect([status, text]).toEqual([200, '{"note":"a","days":7}']);
  });

  it('responds without a key with 401, before a byte of the form is there', async () => {
    const connection = await RawConnection.open(app.url);
    const headers = [`Content-Type: ${FORM}`, 'Content-Length: 1000'];
    connection.send(rawRequest({ method: 'POST', target: '/v1/orders', headers }));
    expect((await connection.nextResponse()).status).toBe(401);
    connection.close();
  });

  it('happens once for each Idempotency-Key, whatever its encoding', async () => {
    const key = { 'Idempotency-Key': 'form' };
    const first = await send('note=a&sizes[]=1', key);
    for (const [body, headers] of [
      ['note=a&sizes[]=1', key],
      ['note=%61&sizes%5B%5D=1', key],
      [gzipSync('note=a&sizes[]=1'), { ...key, ...GZIP }],
    ] as const) {
      const repeated = await send(body, headers);
      expect(repeated.headers).toHaveProperty('idempotency-replayed', 'true');
      expect(repeated.text).toBe(first.text);
    }
    expect(await send('note=b&sizes[]=1', key)).toBeError('IDEMPOTENCY_KEY_REUSED');
  });

  it('does not change the media type of others', async () => {
    const response = await app
      .http()
      .post('/v1/categories')
      .auth(app.key, { type: 'bearer' })
      .type('form')
      .send('name=a');
    expect(response).toBeError('UNSUPPORTED_MEDIA_TYPE', /must be application\/json\.$/);
  });

  it('is documented', async () => {
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const { requestBody, responses } = paths['/orders']!.post!;
    expect(requestBody).toEqual({
      required: true,
      content: { [FORM]: { schema: { $ref: '#/components/schemas/OrderRequest' } } },
    });
    expect(responses).toMatchObject({ 400: {}, 413: {}, 415: {} });
  });
});
