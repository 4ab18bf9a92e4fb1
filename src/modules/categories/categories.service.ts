import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import type { IdempotentInserter } from '../../platform/idempotency/idempotent-inserter.js';
import type { CachedList } from '../../platform/database/lists/cached-list.js';
import { ResourceKit } from '../../platform/resource/resource-kit.js';
import type { IdempotencyKey } from '../../platform/idempotency/idempotency-key.decorator.js';
import { CachedJsonResponse } from '../../platform/http/responses/cached-json-response.js';
import { type Category, type NewCategory, toCategory } from './category.dto.js';
import { CategoryEntity } from './category.entity.js';

/** Lists and creates categories. */
@Injectable()
export class CategoriesService {
  private readonly cachedList: CachedList<CategoryEntity, CachedJsonResponse>;
  private readonly inserter: IdempotentInserter<CategoryEntity, Category>;

  constructor(
    @InjectRepository(CategoryEntity) categories: Repository<CategoryEntity>,
    kit: ResourceKit,
  ) {
    this.cachedList = kit.cachedList(categories, (rows) =>
      CachedJsonResponse.ofList(rows, toCategory),
    );
    this.inserter = kit.batchInserter(categories, toCategory);
  }

  /** Returns all categories in id order, including every create acknowledged before the call. */
  list(): CachedJsonResponse | Promise<CachedJsonResponse> {
    return this.cachedList.get();
  }

  /** Creates a category, once for each Idempotency-Key. It is durable when the promise resolves. */
  create(category: NewCategory, key?: IdempotencyKey): Promise<Category> {
    return this.inserter.insert(category, key);
  }
}
