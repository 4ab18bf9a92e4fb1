/**
 * The floor of NestJS on Express: one global guard that compares the header, and our headers by `setHeader`. `MODE` is
 * `list` (a constant body), `insert` (ValidationPipe, and each category inserted at once), `batch` (the categories of a
 * turn of the event loop in one statement) or `stock` (nest-stock.ts). Only the last one loads TypeORM and Swagger.
 */
import * as nest from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { IsOptional, IsString, Length, Matches, MaxLength } from 'class-validator';
import express, { type Request, type Response } from 'express';
import * as shared from './shared.js';

class NewCategory {
  @IsString()
  @Length(1, 100)
  @Matches(/\S/)
  name!: string;

  @IsOptional()
  @IsString()
  @MaxLength(1000)
  description?: string;
}

const CREATED = { ...shared.NOT_STORED, ...shared.JSON_TYPE };
const isStock = shared.mode === 'stock';
const createInsert = shared.mode === 'batch' ? shared.insertInBatches : shared.insertAtOnce;
const insert = isStock ? undefined : createInsert();

function setHeaders(response: Response, headers: Record<string, string>): void {
  for (const all of [shared.defaultHeaders(), headers])
    for (const name in all) response.setHeader(name, all[name]!);
}

@nest.Controller('v1/categories')
class CategoriesController {
  @nest.Get()
  list(@nest.Res() response: Response): void {
    setHeaders(response, shared.constantList.headers);
    response.end(shared.constantList.body);
  }

  @nest.Post()
  async create(@nest.Body() body: NewCategory, @nest.Res() response: Response): Promise<void> {
    const { name, description } = body;
    const json = JSON.stringify({ id: await insert!(body), name, description });
    response.statusCode = 201;
    setHeaders(response, CREATED);
    response.setHeader('Content-Length', Buffer.byteLength(json));
    response.end(json);
  }
}

class ApiKeyGuard implements nest.CanActivate {
  canActivate(context: nest.ExecutionContext): boolean {
    const { authorization } = context.switchToHttp().getRequest<Request>().headers;
    if (authorization !== shared.authorization) throw new nest.UnauthorizedException();
    return true;
  }
}

@nest.Module({ controllers: [CategoriesController] })
class MinimalModule {}

const stock = isStock ? await import('./nest-stock.js') : undefined;
const options = { logger: ['error' as const], bodyParser: isStock };
const Root = stock?.StockModule ?? MinimalModule;
const app = await NestFactory.create<NestExpressApplication>(Root, options);
app.disable('x-powered-by');
app.useGlobalGuards(new ApiKeyGuard());
if (shared.mode !== 'list')
  app.useGlobalPipes(new nest.ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
if (shared.mode === 'insert' || shared.mode === 'batch') app.use(express.json());
stock?.setUp(app);
await app.listen(shared.port, '127.0.0.1');
