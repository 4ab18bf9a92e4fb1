import { hash, randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Body,
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  Header,
  HttpException,
  Injectable,
  Module,
  Post,
  UnauthorizedException,
  ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import type { Database } from 'better-sqlite3';
import { IsOptional, IsString, Length, Matches, MaxLength } from 'class-validator';
import type { NextFunction, Request, Response } from 'express';
import { Column, Entity, PrimaryGeneratedColumn, Repository } from 'typeorm';

// Stock NestJS: the default adapter, a guard, ValidationPipe, and TypeORM's find and save.

const { PORT = '3000', API_KEY = '', DATABASE_FILE = 'nest.sqlite' } = process.env;

@Entity('categories')
class Category {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column({ length: 100 })
  name!: string;

  @Column({ type: 'varchar', length: 1000, nullable: true })
  description?: string | null;
}

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

@Injectable()
class CategoriesService {
  constructor(@InjectRepository(Category) private readonly categories: Repository<Category>) {}

  async list(): Promise<Category[]> {
    return (await this.categories.find({ order: { id: 'ASC' } })).map(withoutNull);
  }

  async create(category: NewCategory): Promise<Category> {
    return withoutNull(await this.categories.save(this.categories.create(category)));
  }
}

function withoutNull({ id, name, description }: Category): Category {
  return { id, name, description: description ?? undefined };
}

@Controller('categories')
class CategoriesController {
  constructor(private readonly categories: CategoriesService) {}

  @Get()
  @Header('Cache-Control', 'private, no-cache')
  @Header('Vary', 'Accept-Encoding')
  list(): Promise<Category[]> {
    return this.categories.list();
  }

  @Post()
  @Header('Cache-Control', 'no-store')
  create(@Body() category: NewCategory): Promise<Category> {
    return this.categories.create(category);
  }
}

@Injectable()
class ApiKeyGuard implements CanActivate {
  private readonly keyHashes = new Set([hash('sha256', API_KEY)]);

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request>();
    const [scheme, key] = (request.headers.authorization ?? '').split(' ');
    if (scheme === 'Bearer' && key !== undefined && this.keyHashes.has(hash('sha256', key)))
      return true;
    context
      .switchToHttp()
      .getResponse<Response>()
      .setHeader('WWW-Authenticate', 'Bearer realm="petstore"');
    throw new UnauthorizedException('The API key is missing or invalid.');
  }
}

@Catch()
class ErrorFilter implements ExceptionFilter {
  catch(error: unknown, host: ArgumentsHost): void {
    const status = error instanceof HttpException ? error.getStatus() : 500;
    const message = error instanceof HttpException ? error.message : 'Internal error';
    const code = (STATUS_CODES[status] ?? 'Error').toUpperCase().replaceAll(' ', '_');
    host.switchToHttp().getResponse<Response>().status(status).json({ code, message, status });
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'better-sqlite3',
      database: DATABASE_FILE,
      entities: [Category],
      synchronize: true,
      enableWAL: true,
      prepareDatabase: (database: Database) => {
        database.pragma('synchronous = FULL');
      },
    }),
    TypeOrmModule.forFeature([Category]),
  ],
  controllers: [CategoriesController],
  providers: [CategoriesService],
})
class AppModule {}

const app = await NestFactory.create<NestExpressApplication>(AppModule, {
  logger: ['error', 'warn'],
});
app.disable('x-powered-by');
app.setGlobalPrefix('v1');
app.use((_request: Request, response: Response, next: NextFunction) => {
  response.setHeader('X-Request-Id', randomUUID());
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'");
  next();
});
app.useGlobalGuards(new ApiKeyGuard());
app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
app.useGlobalFilters(new ErrorFilter());
await app.listen(Number(PORT), '127.0.0.1');
