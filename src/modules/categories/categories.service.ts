import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { BatchInserter } from '../../platform/database/batch-inserter.js';
import { CachedList } from '../../platform/database/cached-list.js';
import { TableRevisionTracker } from '../../platform/database/table-revision-tracker.js';
import type { CachedJsonResponse } from '../../platform/http/responses/cached-json-response.js';
import { MetricsRegistry } from '../../platform/metrics/metrics-registry.js';
import type { Category, NewCategory } from './category.dto.js';
import { CategoryEntity, type CategoryRow, toCategory } from './category.entity.js';

/** Lists and creates categories. */
@Injectable()
export class CategoriesService {
  private readonly all: CachedList<CategoryRow>;
  private readonly creates: BatchInserter<CategoryRow, Category>;

  constructor(
    @InjectDataSource() dataSource: DataSource,
    revision: TableRevisionTracker,
    metrics: MetricsRegistry,
  ) {
    this.all = new CachedList(CategoryEntity, toCategory, dataSource, revision, metrics);
    this.creates = new BatchInserter(CategoryEntity, toCategory, dataSource, metrics);
  }

  /** All categories in id order; every create that was answered before is among them. */
  list(): CachedJsonResponse | Promise<CachedJsonResponse> {
    return this.all.get();
  }

  /** Stores a category. It is on disk when the promise resolves. */
  create(category: NewCategory): Promise<Category> {
    return this.creates.insert(category);
  }
}
