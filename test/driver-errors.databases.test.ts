import { once } from 'node:events';
import { connect } from 'node:net';
import { Controller, Get } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FEATURES } from '../src/features.js';
import { CategoryEntity } from '../src/modules/categories/category.entity.js';
import { DatabaseUnavailableError } from '../src/platform/database/connection/driver-errors.js';
import { TableRevisionTracker } from '../src/platform/database/lists/table-revision-tracker.js';
import { ApiError } from '../src/platform/errors/api-error.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { MetricsRegistry } from '../src/platform/metrics/metrics-registry.js';
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

  @Get('fetch')
  async fetchService(): Promise<void> {
    await fetch(`http://127.0.0.1:${await findFreePort()}`);
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

const FAILURE_CODE = TEST_DATABASE === 'sqlite' ? 'SQLITE_IOERR' : '58030';

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
  it.each(['service', 'fetch'])('gets 500, and no database error is counted: %s', async (path) => {
    const before = await readDatabaseErrors();
    expect(await call(path)).toBeError('INTERNAL_ERROR');
    expect(await readDatabaseErrors()).toEqual(before);
  });

  it('gets the error that it chose', async () => {
    const before = await readDatabaseErrors();
    expect(await call('handled')).toBeError('GONE', 'The other service is not available.');
    expect(await readDatabaseErrors()).toEqual(before);
  });
});

describe('GET /v1/categories', () => {
  it('returns 503 if the revision of the table cannot be read', async () => {
    expect((await app.categories.list()).status).toBe(200);
    const error = Object.assign(new Error('disk failure'), { code: FAILURE_CODE });
    const tracker = app.app.get(TableRevisionTracker);
    const { dataVersionStatement } = tracker as unknown as Record<string, object>;
    const get = jest.fn(() => {
      throw error;
    });
    if (TEST_DATABASE === 'sqlite') Object.assign(tracker, { dataVersionStatement: { get } });
    else
      jest.spyOn(app.dataSource, 'query').mockRejectedValue(app.dataSource.translateError(error));
    expect(await app.categories.list()).toBeError('SERVICE_UNAVAILABLE');
    if (TEST_DATABASE === 'sqlite') Object.assign(tracker, { dataVersionStatement });
    jest.restoreAllMocks();
    expect((await app.categories.list()).status).toBe(200);
    expect(await readDatabaseErrors()).toContain(`{code="${FAILURE_CODE}"} 1`);
  });
});

describe('a failed statement', () => {
  it('is counted once', async () => {
    const { dataSource } = app;
    await expect(dataSource.query('SELECT * FROM "missing"')).rejects.toThrow(/missing/);
    const code = TEST_DATABASE === 'sqlite' ? 'SQLITE_ERROR' : '42P01';
    expect(await readDatabaseErrors()).toContain(`{code="${code}"} 1`);
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
