import { once } from 'node:events';
import { connect } from 'node:net';
import { Controller, Get, Param } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { QueryFailedError, Repository } from 'typeorm';
import { FEATURES } from '../../../src/features.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import {
  DatabaseUnavailableError,
  translateDriverError,
} from '../../../src/platform/database/connection/driver-errors.js';
import { ApiError } from '../../../src/platform/errors/api-error.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { MetricsRegistry } from '../../../src/platform/metrics/prometheus-registry.js';
import { useApp } from '../support/app.js';
import { DATABASE, describeOnPostgres } from '../support/databases.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { findFreePort } from '../support/postgres.js';

const { jest } = import.meta;
afterEach(() => jest.restoreAllMocks());

const SELECT = 'SELECT * FROM "categories" WHERE "name" =';

/** Statements that cannot work, with their parameters: mistakes in the code of a feature. */
const WRONG_STATEMENTS: Record<typeof DATABASE, [string, unknown[]][]> = {
  sqlite: [
    [`${SELECT} ?`, [new Date()]],
    [`${SELECT} ?`, [{ name: 'dog' }]],
    [`${SELECT} ?`, []],
    ['SELECT 1; SELECT 2', []],
    ['SELECT FROM', []],
    ['SELECT * FROM "dogs"', []],
    ['SELECT "bark" FROM "categories"', []],
  ],
  postgres: [
    // 08P01, a protocol violation.
    [`${SELECT} $1`, ['dog', 'cat']],
    [`${SELECT} $1`, [{ id: 1n }]],
    ['SELECT FROM WHERE', []],
    ['SELECT * FROM "dogs"', []],
    ['SELECT "bark" FROM "categories"', []],
  ],
};

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

  @Get('wrong/:index')
  runWrongStatement(@Param('index') index: number): Promise<unknown> {
    return this.categories.query(...WRONG_STATEMENTS[DATABASE][index]!);
  }
}

@Feature({
  tag: { name: 'calls', description: 'Operations of this test.' },
  entities: [CategoryEntity],
  controllers: [CallsController],
})
class CallsModule {}

const logger = new MemoryLogger();
const app = useApp({
  features: [CallsModule, ...FEATURES],
  config: { metricsPort: 0 },
  logger,
});

const call = (path: string) =>
  app.http().get(`/v1/calls/${path}`).auth(app.key, { type: 'bearer' });

const readDatabaseErrors = async (): Promise<unknown> =>
  app.app.get(MetricsRegistry).getSingleMetricAsString(`service_database_errors_total`);

describe('a feature that fails to reach another service', () => {
  it('returns 500 or the error that it chose, and counts no database error', async () => {
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
  it('returns 503 with Retry-After while the database is unavailable', async () => {
    expect((await call('database')).status).toBe(200);
    jest.spyOn(app.dataSource, 'createQueryRunner').mockImplementation(() => {
      throw new DatabaseUnavailableError();
    });
    const response = await call('database');
    expect(response).toBeError('SERVICE_UNAVAILABLE');
    expect(response.headers['retry-after']).toBe('1');
  });
});

describe('an error of a driver', () => {
  it.each([
    // PgBouncer 1.18 has one code for whatever it ends a session for.
    { message: 'query_wait_timeout', code: '08P01', severity: 'FATAL' },
    { message: 'server conn crashed?', code: '08P01', severity: 'FATAL' },
    { message: 'terminating connection due to administrator command', code: '57P01' },
    { message: 'read ECONNRESET', code: 'ECONNRESET' },
    { message: 'write EPROTO', code: 'EPROTO' },
    { message: 'connect EHOSTDOWN 10.0.0.1:5432', code: 'EHOSTDOWN' },
    { message: 'Cannot call write after a stream was destroyed', code: 'ERR_STREAM_DESTROYED' },
    // A Unix socket without a server.
    { message: 'connect ENOENT /tmp/.s.PGSQL.5432', code: 'ENOENT' },
    { message: 'Connection terminated unexpectedly' },
    { message: 'Received unexpected commandComplete message from backend.' },
    { message: 'Client has encountered a connection error and is not queryable' },
    { message: 'database or disk is full', code: 'SQLITE_FULL' },
  ])('makes the database unavailable if it says that it is lost or unable: %j', (properties) => {
    const error = new QueryFailedError('', [], Object.assign(new Error(), properties));
    expect(translateDriverError(error)).toBeInstanceOf(DatabaseUnavailableError);
  });
});

describe('a feature with a wrong statement', () => {
  it.each(WRONG_STATEMENTS[DATABASE].map(([sql, parameters], index) => [sql, parameters, index]))(
    'returns 500 for %s with %p, and logs its stack and no outage',
    async (_sql, _parameters, index) => {
      const response = await call(`wrong/${index}`);
      expect(response).toBeError('INTERNAL_ERROR');
      const [entry] = logger.forRequest(response.headers['x-request-id']);
      expect(entry).toMatchObject({ level: 'error', values: { 0: 'Request failed' } });
      expect((entry!.values[1] as Error).stack).toMatch(/^QueryFailedError: .*\n\s+at /);
      expect(logger.text).not.toMatch(/Database (connection )?failed/);
    },
  );
});

// The last, because the connection that it ends may be the next that the pool offers.
describeOnPostgres('a statement', () => {
  it.each(['pg_cancel_backend', 'pg_terminate_backend'])(
    'rejects with 503 if it is ended by %s',
    async (name) => {
      const statement = app.dataSource.query(`SELECT ${name}(pg_backend_pid())`);
      await expect(statement).rejects.toThrow(DatabaseUnavailableError);
    },
  );
});
