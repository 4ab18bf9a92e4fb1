/** What docs/as-in-nest.md says about modules, which a team writes with the public names only. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type BeforeApplicationShutdown,
  Body,
  type CanActivate,
  Controller,
  Delete,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Headers,
  Inject,
  Injectable,
  type OnModuleInit,
  Post,
  Query,
  UseGuards,
} from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import { InjectDataSource, InjectRepository } from '@nestjs/typeorm';
import { OmitType } from '@nestjs/swagger';
import type { Request } from 'express';
import { Counter } from 'prom-client';
import { Column, DataSource, Entity, EntityManager, Index, Repository } from 'typeorm';
import {
  ApiKeyId,
  BinaryBody,
  type CachedJsonResponse,
  CONFIG,
  type Config,
  bigintTransformer,
  dateTimeTransformer,
  Feature,
  IdColumn,
  IdempotencyKey,
  IdParam,
  insertReturning,
  integer,
  MetricsRegistry,
  Operation,
  Property,
  Public,
  Readiness,
  RequireScope,
  type Resource,
  ResourceKit,
  string,
  transactionOnce,
  type Variables,
  withDeadline,
} from '../../../src/platform/index.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { MetricsServer } from '../../../src/platform/metrics/metrics-server.js';
import { createDatabase, startApp, type TestApp, useApp } from '../support/app.js';
import { createTable } from '../support/create-table.js';
import { DATABASE } from '../support/databases.js';
import { type HttpResponse, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { waitFor } from '../support/wait.js';

const variables = {
  webhookSecret: {
    name: 'ORDERS_WEBHOOK_SECRET',
    format: string('at least 16 characters', (text) => text.length >= 16),
    secret: true,
    description: 'signs the webhooks of orders',
  },
  maxOrders: {
    name: 'ORDERS_MAX',
    format: integer(1, 100),
    default: '2',
    description: 'orders that the list shows',
  },
} satisfies Variables;

/** A row of an API key, which is not deleted but marked. */
@Entity('orders')
@Index('uq_orders_name', ['ownerId', 'name'], { unique: true, where: '"deleted_at" IS NULL' })
class OrderEntity {
  @IdColumn('pk_orders') id!: number;
  @Column('bigint', { name: 'owner_id', transformer: bigintTransformer }) ownerId!: number;
  @Column('varchar', { length: 50 }) name!: string;
  @Column('bigint', { name: 'deleted_at', nullable: true, transformer: dateTimeTransformer })
  deletedAt!: string | null;
}

/** A run of a job, which happens once because its name is unique. */
@Entity('order_runs')
@Index('uq_order_runs_name', ['name'], { unique: true })
class RunEntity {
  @IdColumn('pk_order_runs') id!: number;
  @Column('varchar', { length: 50 }) name!: string;
}

class Order {
  @Property({ type: 'integer', minimum: 1 }) id!: number;
  @Property({ type: 'string', minLength: 1, maxLength: 50 }) name!: string;
}
class NewOrder extends OmitType(Order, ['id']) {}

@Injectable()
class OrdersService implements OnModuleInit {
  readonly orders: Resource<OrderEntity, Order>;
  readonly paid;
  readonly placed: string[] = [];
  conflicts = 0;
  /** What the indicator of the test does. */
  indicator = async (): Promise<void> => undefined;

  constructor(
    @InjectRepository(OrderEntity) readonly repository: Repository<OrderEntity>,
    @Inject(CONFIG) readonly config: Config<typeof variables>,
    private readonly readiness: Readiness,
    kit: ResourceKit,
    metrics: MetricsRegistry,
  ) {
    this.orders = kit.resource(repository, {
      toBody: ({ id, name }) => ({ id, name }),
      paths: { ownerId: null },
    });
    this.paid = new Counter({ name: 'orders_paid_total', help: 'Paid.', registers: [metrics] });
  }

  onModuleInit(): void {
    this.readiness.add('orders', () => this.indicator());
  }

  @OnEvent('order.placed')
  ship(name: string): void {
    this.placed.push(name);
  }

  /** Lets a transaction fail on PostgreSQL as if it was in a deadlock with another one. */
  async failOnce(manager: EntityManager): Promise<void> {
    if (DATABASE === 'sqlite' || this.conflicts++ > 0) return;
    await manager.query(`DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`);
  }

  isSigned(body: Buffer, signature = ''): boolean {
    const { webhookSecret } = this.config;
    if (webhookSecret === undefined) return false;
    const expected = createHmac('sha256', webhookSecret).update(body).digest();
    const actual = Buffer.from(signature, 'hex');
    return actual.length === expected.length && timingSafeEqual(actual, expected);
  }
}

/** Lets only the first key in, as a second scope would. */
@Injectable()
class AdminGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest<Request>().apiKey?.id === 1;
  }
}

const tag = { name: 'orders', description: 'Orders.' };

@Controller('orders')
class OrdersController {
  constructor(
    private readonly service: OrdersService,
    @InjectDataSource() private readonly dataSource: DataSource,
    private readonly events: EventEmitter2,
  ) {}

  @Get()
  @Operation({ operationId: 'listOrders', response: 'Orders.', returns: [Order] })
  list(@ApiKeyId() ownerId: number): Promise<CachedJsonResponse> {
    return this.service.orders.list({ ownerId, deletedAt: null });
  }

  @Get('all')
  @UseGuards(AdminGuard)
  @Operation({ operationId: 'listAllOrders', response: 'Orders.', returns: [Order] })
  listAll(): Promise<CachedJsonResponse> {
    return this.service.orders.list();
  }

  @Get('search')
  @Operation({ operationId: 'searchOrders', response: 'Orders.', returns: [Order] })
  search(@Query('prefix') prefix: string): Promise<Order[]> {
    const escaped = prefix.toLowerCase().replaceAll(/[\\%_]/g, String.raw`\$&`);
    return withDeadline(
      this.service.repository
        .createQueryBuilder('order')
        .select(['order.id', 'order.name'])
        .where(String.raw`order.name LIKE :pattern ESCAPE '\'`, { pattern: `${escaped}%` })
        .orderBy('order.id')
        .limit(this.service.config.maxOrders)
        .getMany(),
    );
  }

  @Get(':id')
  @Operation({ operationId: 'getOrder', response: 'The order.', returns: Order })
  read(@IdParam('id') id: number, @ApiKeyId() ownerId: number): Promise<Order> {
    return this.service.orders.read({ id, ownerId, deletedAt: null });
  }

  @Post()
  @Operation({ operationId: 'createOrder', status: 201, response: 'The order.', returns: Order })
  create(@Body() { name }: NewOrder, @ApiKeyId() ownerId: number): Promise<Order> {
    return this.service.orders.create({ name, ownerId });
  }

  @Delete(':id')
  @Operation({ operationId: 'deleteOrder', status: 204, response: 'It was deleted.' })
  async delete(@IdParam('id') id: number, @ApiKeyId() ownerId: number): Promise<void> {
    const deletedAt = new Date().toISOString();
    await this.service.orders.patch({ id, ownerId, deletedAt: null }, { deletedAt });
  }

  @Post('webhook')
  @Public()
  @Operation({ operationId: 'receiveWebhook', status: 204, response: 'It was received.' })
  receive(
    @BinaryBody({ limit: 1000, contentTypes: ['application/json'] }) body: Buffer,
    @Headers('x-signature') signature?: string,
  ): void {
    if (!this.service.isSigned(body, signature)) throw new ForbiddenException('Wrong signature.');
    const { orders } = JSON.parse(body.toString()) as { orders: number };
    this.service.paid.inc(orders);
  }

  /** Fails for a name that exists, after it has registered the event. */
  @Post('placed')
  @Operation({ operationId: 'placeOrder', status: 201, response: 'The order.', returns: Order })
  place(
    @Body() { name }: NewOrder,
    @ApiKeyId() ownerId: number,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Order> {
    return transactionOnce(this.dataSource, key, async (manager, afterCommit) => {
      afterCommit(() => this.events.emit('order.placed', name));
      if (name === 'unlucky') afterCommit(() => Promise.reject(new Error('The queue is full.')));
      if (name === 'conflict') await this.service.failOnce(manager);
      const order = await insertReturning(manager.getRepository(OrderEntity), { name, ownerId });
      return { id: order.id, name };
    });
  }
}

@Feature({
  tag,
  imports: [EventEmitterModule.forRoot()],
  entities: [OrderEntity],
  migrations: [createTable(OrderEntity, 1_796_000_000_001)],
  variables,
  controllers: [OrdersController],
  providers: [OrdersService],
})
class OrdersModule {}

const SECRET = 'a secret of this test';
const { jest } = import.meta;
let other: string;

const sortStatuses = (responses: readonly HttpResponse[]): number[] =>
  responses.map(({ status }) => status).toSorted((a, b) => a - b);

const send = (
  app: TestApp,
  method: string,
  path: string,
  body?: object,
  key = app.key,
): Promise<HttpResponse> => app.send(method, `/v1/orders${path}`, { key, ...(body && { body }) });

describe('a module whose rows belong to API keys', () => {
  const app = useApp({
    features: [OrdersModule],
    environment: { ORDERS_WEBHOOK_SECRET: SECRET },
    config: { metricsPort: 0 },
  });
  beforeAll(async () => {
    other = (await app.app.get(ApiKeysService).create('other')).key;
  });
  const create = async (name: string, key?: string): Promise<number> =>
    (await send(app, 'POST', '', { name }, key)).json<Order>().id;
  const getNames = async (path = '', key?: string): Promise<string[]> =>
    (await send(app, 'GET', path, undefined, key)).json<Order[]>().map(({ name }) => name);

  it('returns to each key only its rows', async () => {
    const [mine, theirs] = await Promise.all([create('owned'), create('owned', other)]);
    expect(await getNames()).toEqual(['owned']);
    expect(await getNames('', other)).toEqual(['owned']);
    expect((await send(app, 'GET', `/${mine}`)).status).toBe(200);
    for (const method of ['GET', 'DELETE'])
      expect(await send(app, method, `/${theirs}`)).toBeError('NOT_FOUND');
    expect((await send(app, 'GET', `/${theirs}`, undefined, other)).status).toBe(200);
    for (const [id, key] of [
      [mine, app.key],
      [theirs, other],
    ] as const)
      expect((await send(app, 'DELETE', `/${id}`, undefined, key)).status).toBe(204);
  });

  it('marks rows as deleted, and accepts new rows with their names', async () => {
    const id = await create('dog');
    expect(await send(app, 'POST', '', { name: 'dog' })).toBeError(
      'ALREADY_EXISTS',
      'Another resource has the same name.',
    );
    const deleted = await Promise.all([1, 2, 3].map(() => send(app, 'DELETE', `/${id}`)));
    expect(sortStatuses(deleted)).toEqual([204, 404, 404]);
    expect(await send(app, 'GET', `/${id}`)).toBeError('NOT_FOUND');
    expect(await getNames()).toEqual([]);
    const attempts = await Promise.all(
      [1, 2, 3, 4].map(() => send(app, 'POST', '', { name: 'dog' })),
    );
    expect(sortStatuses(attempts)).toEqual([201, 409, 409, 409]);
    expect(await getNames()).toEqual(['dog']);
    const rows = await app.dataSource.getRepository(OrderEntity).findBy({ name: 'dog' });
    expect(rows.map(({ deletedAt }) => deletedAt === null)).toEqual([false, true]);
    await send(app, 'DELETE', `/${rows[1]!.id}`);
  });

  it('finds rows by a prefix', async () => {
    const ids = await Promise.all(['a_b', 'axb', 'a%b'].map((name) => create(name)));
    expect(await getNames('/search?prefix=A_')).toEqual(['a_b']);
    expect(await getNames('/search?prefix=a%25')).toEqual(['a%b']);
    // ORDERS_MAX has a default.
    expect(await getNames('/search?prefix=a')).toHaveLength(2);
    await Promise.all(ids.map((id) => send(app, 'DELETE', `/${id}`)));
  });

  it('returns 403 to keys that it does not allow', async () => {
    expect((await send(app, 'GET', '/all')).status).toBe(200);
    expect(await send(app, 'GET', '/all', undefined, other)).toBeError('FORBIDDEN');
    // @ts-expect-error -- a scope of one's own
    expect(RequireScope('admin')).toBeInstanceOf(Function);
  });

  it('accepts webhooks signed with its secret, and counts them', async () => {
    const body = '{ "orders": 3 }';
    const post = (signature: string): Promise<HttpResponse> =>
      sendRequest(`${app.url}/v1/orders/webhook`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-signature': signature },
        body,
      });
    expect(await post('00')).toBeError('FORBIDDEN', 'Wrong signature.');
    const signature = createHmac('sha256', SECRET).update(body).digest('hex');
    expect((await post(signature)).status).toBe(204);
    const { text } = await sendRequest(app.app.get(MetricsServer).url!);
    expect(text).toContain('# TYPE orders_paid_total counter\norders_paid_total 3\n');
  });
});

describe('an event after a commit', () => {
  const logger = new MemoryLogger();
  const app = useApp({ features: [OrdersModule], logger });
  const place = (name: string, key: string): Promise<HttpResponse> =>
    app.send('POST', '/v1/orders/placed', { headers: { 'idempotency-key': key }, body: { name } });
  const getPlaced = (): string[] => app.app.get(OrdersService).placed;
  beforeEach(() => getPlaced().splice(0));

  it('occurs once, also if requests are repeated or fail', async () => {
    const names = Array.from({ length: 10 }, (_, n) => `order-${n}`);
    const sendAll = () => Promise.all([...names, ...names].map((name) => place(name, name)));
    const responses = [...(await sendAll()), ...(await sendAll())];
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
    expect((await place('order-0', 'another-key')).status).toBe(500);
    expect(getPlaced().toSorted()).toEqual(names);
  });

  it('occurs once if the transaction is repeated after a conflict', async () => {
    expect((await place('conflict', 'conflict')).status).toBe(201);
    expect(app.app.get(OrdersService).conflicts).toBe(DATABASE === 'postgres' ? 2 : 0);
    expect(getPlaced()).toEqual(['conflict']);
  });

  it('keeps the response if its handler fails, and logs the failure', async () => {
    const responses = [await place('unlucky', 'key'), await place('unlucky', 'key')];
    expect(responses.map(({ status }) => status)).toEqual([201, 201]);
    expect(responses[1]!.headers['idempotency-replayed']).toBe('true');
    expect(getPlaced()).toEqual(['unlucky']);
    const errors = logger.entries.filter(({ values }) => values.at(-1) === 'Transaction');
    expect(errors).toEqual([
      {
        level: 'error',
        values: ['A task after a commit failed', new Error('The queue is full.'), 'Transaction'],
      },
    ]);
  });
});

describe('@ApiKeyId()', () => {
  it('rejects a public operation, whose criteria would select the rows of all keys', () => {
    expect(() => {
      class PublicController {
        @Get()
        @Public()
        list(@ApiKeyId() id: number): number {
          return id;
        }
      }
      return PublicController;
    }).toThrow('list is @Public(), whose requests have no API key for @ApiKeyId().');
  });
});

describe('the readiness of a module', () => {
  it('makes the service unready, and is logged by its name', async () => {
    const logger = new MemoryLogger();
    @Injectable()
    class StockService {
      constructor(readiness: Readiness) {
        readiness.add('stock', async () => undefined);
      }
    }
    @Feature({ tag, providers: [StockService] })
    class StockModule {}
    const app = await startApp({ features: [OrdersModule, StockModule], logger });
    const service = app.app.get(OrdersService);
    const getReadiness = () => sendRequest(`${app.url}/readyz`);
    expect((await getReadiness()).json()).toEqual({ status: 'ok' });

    const indicator = jest.fn(async () => {
      throw new Error('the supplier is closed');
    });
    service.indicator = indicator;
    const response = await waitFor(getReadiness, ({ status }) => status === 503);
    expect(response).toBeError(
      'SERVICE_UNAVAILABLE',
      'Service temporarily unavailable. Please retry later.',
    );
    const responses = await Promise.all(Array.from({ length: 20 }, getReadiness));
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 503));
    expect(indicator.mock.calls.length).toBeLessThan(3);
    // Requests are served.
    expect((await send(app, 'GET', '')).status).toBe(200);

    service.indicator = async () => undefined;
    await waitFor(getReadiness, ({ status }) => status === 200);
    // A supplier that hangs does not keep the probe waiting.
    service.indicator = () => new Promise(() => undefined);
    await waitFor(getReadiness, ({ status }) => status === 503);
    const lines = logger.entries
      .filter(({ values }) => values.at(-1) === 'Readiness')
      .map(({ values }) => values.slice(0, -1));
    expect(lines).toEqual([
      ['The module orders is not ready', new Error('the supplier is closed')],
      ['The module orders is ready again'],
      ['The module orders is not ready', new Error('The indicator had no result within 2000 ms')],
    ]);
    await app.stop();
  });
});

describe('a job', () => {
  it('writes to the database while the shutdown waits for it', async () => {
    let isWritten = false;
    @Injectable()
    class SlowJob implements BeforeApplicationShutdown {
      constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

      async beforeApplicationShutdown(): Promise<void> {
        await delay(50);
        const orders = this.dataSource.getRepository(OrderEntity);
        await insertReturning(orders, { name: 'late', ownerId: 1 });
        isWritten = true;
      }
    }
    @Feature({ tag, providers: [SlowJob] })
    class SlowModule {}
    const app = await startApp({ features: [OrdersModule, SlowModule] });
    await app.stop();
    expect(isWritten).toBe(true);
  });

  it('runs in every instance, and its work once', async () => {
    let attempts = 0;
    @Injectable()
    class CountJob {
      constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

      @Interval(20)
      async count(): Promise<void> {
        attempts++;
        await this.dataSource.transaction(async (manager) => {
          await insertReturning(manager.getRepository(RunEntity), { name: 'today' });
        });
      }
    }
    @Feature({
      tag,
      imports: [ScheduleModule.forRoot()],
      entities: [RunEntity],
      migrations: [createTable(RunEntity, 1_796_000_000_002)],
      providers: [CountJob],
    })
    class JobsModule {}
    const database = await createDatabase(DATABASE);
    const apps = [
      await startApp({ features: [JobsModule], database }),
      await startApp({ features: [JobsModule], database }),
    ];
    await waitFor(() => attempts > 20);
    const rows = await apps[0]!.dataSource.getRepository(RunEntity).find();
    expect(rows).toHaveLength(1);
    for (const app of apps) await app.stop();
    const end = attempts;
    await delay(100);
    expect(attempts).toBe(end);
    await database.drop();
  });
});
