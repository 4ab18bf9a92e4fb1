/**
 * Preloaded by a service process, adds an operation whose Idempotency-Keys an interceptor records: a lock before the
 * handler, the response after it, neither in its transaction. Ends the process without warning before it executes a
 * statement that contains `CRASH_BEFORE`.
 */
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  Post,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import { InjectDataSource } from '@nestjs/typeorm';
import Database from 'better-sqlite3';
import type { Request } from 'express';
import { lastValueFrom, type Observable, of } from 'rxjs';
import type { DataSource } from 'typeorm';
import { FEATURES } from '../../src/features.js';
import { Feature } from '../../src/platform/feature.decorator.js';

@Injectable()
class RecordingInterceptor implements NestInterceptor {
  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const key = context.switchToHttp().getRequest<Request>().headers['idempotency-key'];
    const [record] = await this.dataSource.query<{ response: string | null }[]>(
      'SELECT "response" FROM "responses" WHERE "key" = ?',
      [key],
    );
    if (record?.response) return of(JSON.parse(record.response));
    // A lock of an attempt that has crashed counts as expired.
    await this.dataSource.query('INSERT OR REPLACE INTO "responses" ("key") VALUES (?)', [key]);
    const response: unknown = await lastValueFrom(next.handle());
    const complete = 'UPDATE "responses" SET "response" = ? WHERE "key" = ?';
    await this.dataSource.query(complete, [JSON.stringify(response), key]);
    return of(response);
  }
}

@Controller('intercepted')
class InterceptedController {
  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  @Post()
  @UseInterceptors(RecordingInterceptor)
  @ApiOperation({ operationId: 'createIntercepted', summary: 'Create a dog' })
  async create(): Promise<object> {
    await this.dataSource.query('INSERT INTO "categories" ("name") VALUES (?)', ['dog']);
    return { name: 'dog' };
  }
}

@Feature({
  tag: { name: 'intercepted', description: 'An operation with an interceptor.' },
  controllers: [InterceptedController],
})
class InterceptedModule {}

(FEATURES as Type[]).push(InterceptedModule);

const { CRASH_BEFORE } = process.env;
type Prepare = (this: unknown, sql: string) => unknown;
const connection = Database.prototype as unknown as { prepare: Prepare };
const { prepare } = connection;
connection.prepare = function prepareOrCrash(sql) {
  if (CRASH_BEFORE !== undefined && sql.includes(CRASH_BEFORE))
    process.kill(process.pid, 'SIGKILL');
  return prepare.call(this, sql);
};
