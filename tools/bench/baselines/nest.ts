/** Stock NestJS as its documentation shows it: TypeORM's `find` and `save`, and Swagger. */
import * as nest from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import * as swagger from '@nestjs/swagger';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import type { Database } from 'better-sqlite3';
import { IsOptional, IsString, Length, Matches, MaxLength } from 'class-validator';
import type { Request, Response } from 'express';
import { Column, Entity, PrimaryGeneratedColumn, Repository } from 'typeorm';
import * as shared from './shared.js';

@Entity('categories')
class Category {
  @swagger.ApiProperty() @PrimaryGeneratedColumn() id!: number;

  @swagger.ApiProperty()
  @IsString()
  @Length(1, 100)
  @Matches(/\S/)
  @Column({ length: 100 })
  name!: string;

  @swagger.ApiPropertyOptional({ type: String })
  @IsOptional()
  @IsString()
  @MaxLength(1000)
  @Column({ type: 'varchar', length: 1000, nullable: true })
  description?: string | null;
}

class NewCategory extends swagger.OmitType(Category, ['id']) {}

@nest.Controller('v1/categories')
class CategoriesController {
  constructor(@InjectRepository(Category) private readonly categories: Repository<Category>) {}

  @nest.Get()
  @nest.Header('Cache-Control', 'private, no-cache')
  @nest.Header('Vary', 'Accept-Encoding')
  async list(): Promise<Category[]> {
    const categories = await this.categories.find({ order: { id: 'ASC' } });
    for (const category of categories) category.description ??= undefined;
    return categories;
  }

  @nest.Post()
  @nest.Header('Cache-Control', 'no-store')
  create(@nest.Body() category: NewCategory): Promise<Category> {
    return this.categories.save(this.categories.create(category));
  }
}

class ApiKeyGuard implements nest.CanActivate {
  canActivate(context: nest.ExecutionContext): boolean {
    const { authorization } = context.switchToHttp().getRequest<Request>().headers;
    if (!shared.isAuthorized(authorization)) throw new nest.UnauthorizedException();
    return true;
  }
}

@nest.Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'better-sqlite3',
      database: shared.file,
      entities: [Category],
      synchronize: true,
      enableWAL: true,
      prepareDatabase: (database: Database) => void database.pragma('synchronous = FULL'),
    }),
    TypeOrmModule.forFeature([Category]),
  ],
  controllers: [CategoriesController],
})
class StockModule {}

const app = await NestFactory.create<NestExpressApplication>(StockModule, { logger: ['error'] });
app.disable('x-powered-by');
app.useGlobalGuards(new ApiKeyGuard());
app.useGlobalPipes(new nest.ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
app.use((_request: Request, response: Response, next: () => void) => {
  response.setHeaders(new Map(Object.entries(shared.defaultHeaders())));
  next();
});
const info = new swagger.DocumentBuilder().setTitle('Categories').build();
swagger.SwaggerModule.setup('docs', app, () => swagger.SwaggerModule.createDocument(app, info));
await app.listen(shared.port, '127.0.0.1');
