import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import {
  type CachedJsonResponse,
  type IdempotencyKey,
  type Resource,
  ResourceKit,
} from '../../platform/index.js';
import { type Category, type NewCategory, toCategory } from './category.dto.js';
import { CategoryEntity } from './category.entity.js';

/** Lists and creates categories. */
@Injectable()
export class CategoriesService {
  private readonly categories: Resource<CategoryEntity, Category>;

  constructor(
    @InjectRepository(CategoryEntity) categories: Repository<CategoryEntity>,
    kit: ResourceKit,
  ) {
    this.categories = kit.resource(categories, { toBody: toCategory });
  }

  /** Returns all categories in id order, including every create acknowledged before the call. */
  list(): Promise<CachedJsonResponse> {
    return this.categories.list();
  }

  /** Creates a category, once for each Idempotency-Key. It is durable when the promise resolves. */
  create(category: NewCategory, key?: IdempotencyKey): Promise<Category> {
    return this.categories.create(category, key);
  }
}
