/** The service with the categories in pages, too: `GET /v1/category-pages`. */
import { Controller, Get, Injectable, Query } from '@nestjs/common';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { createApp } from '../../src/app.js';
import { FEATURES } from '../../src/features.js';
import { toCategory } from '../../src/modules/categories/category.dto.js';
import { CategoryEntity } from '../../src/modules/categories/category.entity.js';
import { loadConfig } from '../../src/platform/config/config.js';
import type { CachedList } from '../../src/platform/database/lists/cached-list.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { PageParams } from '../../src/platform/resource/page-params.js';
import { CachedJsonResponse } from '../../src/platform/http/responses/cached-json-response.js';

@Injectable()
class CategoryPagesService {
  readonly cachedList: CachedList<CategoryEntity, CachedJsonResponse>;

  constructor(
    @InjectRepository(CategoryEntity) categories: Repository<CategoryEntity>,
    kit: ResourceKit,
  ) {
    this.cachedList = kit.cachedList(categories, (rows, paging) =>
      CachedJsonResponse.ofList(rows, toCategory, paging),
    );
  }
}

@Controller('category-pages')
class CategoryPagesController {
  constructor(private readonly service: CategoryPagesService) {}

  @Get()
  listCategoryPages(@Query() page: PageParams): CachedJsonResponse | Promise<CachedJsonResponse> {
    return this.service.cachedList.getPage(page);
  }
}

@Feature({
  tag: { name: 'category-pages', description: 'Categories in pages' },
  imports: [TypeOrmModule.forFeature([CategoryEntity])],
  controllers: [CategoryPagesController],
  providers: [CategoryPagesService],
})
class CategoryPagesModule {}

const config = loadConfig();
const app = await createApp(config, { features: [...FEATURES, CategoryPagesModule] });
app.enableShutdownHooks();
await app.listen(config.port, config.host);
