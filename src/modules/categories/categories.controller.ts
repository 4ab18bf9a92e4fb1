import { Body, Controller, Get, Post } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { type CachedJsonResponse, IdempotencyKey, Operation } from '../../platform/index.js';
import { Category, NewCategory } from './category.dto.js';
import { CategoriesService } from './categories.service.js';

@ApiTags('categories')
@Controller('categories')
export class CategoriesController {
  constructor(private readonly categories: CategoriesService) {}

  @Get()
  @Operation({
    operationId: 'listCategories',
    summary: 'List categories',
    description:
      'Returns all categories in id order. The response has an ETag: send it in If-None-Match to get 304 without a body while the list is unchanged.',
    response: 'All categories available.',
    returns: [Category],
    list: 'whole',
  })
  listCategories(): Promise<CachedJsonResponse> {
    return this.categories.list();
  }

  @Post()
  @Operation({
    operationId: 'createCategory',
    summary: 'Create a category',
    description:
      'Creates a category. A 201 means it has been durably stored. Names need not be unique.',
    response: 'The created category.',
    status: 201,
    returns: Category,
  })
  createCategory(
    @Body() category: NewCategory,
    @IdempotencyKey() key: IdempotencyKey | undefined,
  ): Promise<Category> {
    return this.categories.create(category, key);
  }
}
