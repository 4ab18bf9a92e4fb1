import { once } from 'node:events';
import { connect } from 'node:net';
import { Controller, Get } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FEATURES } from '../src/features.js';
import { CategoryEntity } from '../src/modules/categories/category.entity.js';
import { DatabaseUnavailableError } from '../src/platform/database/connection/driver-errors.js';
import { ApiError } from '../src/platform/errors/api-error.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { MetricsRegistry } from '../src/platform/metrics/prometheus-registry.js';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import { findFreePort } from './support/postgres.js';

const { jest } = import.meta;
expect.extend(matchers);
afterEach(() => jest.restoreAllMocks());

/** Calls another service that does not respond, and the database. */
@Controller('calls')
class CallsController {
  constructor(
    @InjectRepository(CategoryEntity) private readonly categories: Repository<CategoryEntity>,
  ) {}

  @Get('service')
  async callService(): Promise<void> {
    await once(connect(await findFreePort(), '127.0.0.1'), 'connect');
  }

  @Get('handled')
  async handleFailure(): Promise<void> {
    await this.callService().catch((error: unknown) => {
      throw new ApiError('GONE', 'The other service is not available.', { cause: error });
    });
  }

  @Get('database')
  countCategories(): Promise<number> {
    return this.categories.count();
  }
}

@Feature({
  tag: { name: 'calls', description: 'Operations of this test.' },
  entities: [CategoryEntity],
  controllers: [CallsController],
})
class CallsModule {}

declare const TEST_DATABASE: 'sqlite' | 'postgres';

const describeOnPostgres = TEST_DATABASE === 'postgres' ? describe : describe.skip;

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ features: [CallsModule, ...FEATURES] });
});
afterAll(() => app.stop());

const call = (path: string) =>
  app.http().get(`/v1/calls/${path}`).auth(app.key, { type: 'bearer' });

const readDatabaseErrors = async (): Promise<unknown> =>
  app.app.get(MetricsRegistry).getSingleMetricAsString('petstore_database_errors_total');

describe('a feature that fails to reach another service', () => {
  it('gets 500 or the error that it chose, and no database error is counted', async () => {
    const before = await readDatabaseErrors();
    expect(await call('service')).toBeError('INTERNAL_ERROR');
    expect(await call('handled')).toBeError('GONE', 'The other service is not available.');
    expect(await readDatabaseErrors()).toEqual(before);
  });
});

describeOnPostgres('GET /v1/categories', () => {
  it('returns 503 if the revision of the table cannot be read', async () => {
    expect((await app.categories.list()).status).toBe(200);
    jest.spyOn(app.dataSource, 'query').mockRejectedValue(new DatabaseUnavailableError());
    expect(await app.categories.list()).toBeError('SERVICE_UNAVAILABLE');
    jest.restoreAllMocks();
    expect((await app.categories.list()).status).toBe(200);
  });
});

describe('a feature that calls the database through a repository', () => {
  it('gets 503 with Retry-After while the database is unavailable', async () => {
    expect((await call('database')).status).toBe(200);
    jest.spyOn(app.dataSource, 'createQueryRunner').mockImplementation(() => {
      throw new DatabaseUnavailableError();
    });
    const response = await call('database');
    expect(response).toBeError('SERVICE_UNAVAILABLE');
    expect(response.headers['retry-after']).toBe('1');
  });
});

// The last, because the connection that it ends may be the next that the pool offers.
describeOnPostgres('a statement', () => {
  it.each(['pg_cancel_backend', 'pg_terminate_backend'])(
    'that is ended by %s fails because the database is unavailable',
    async (name) => {
      const statement = app.dataSource.query(`SELECT ${name}(pg_backend_pid())`);
      await expect(statement).rejects.toThrow(DatabaseUnavailableError);
    },
  );
});
