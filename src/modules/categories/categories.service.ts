import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { GroupCommit } from '../../platform/database/batch-inserter.js';
import { ListSnapshot } from '../../platform/database/cached-list.js';
import { Revision } from '../../platform/database/table-revision-tracker.js';
import type { JsonSnapshot } from '../../platform/http/responses/cached-json-response.js';
import { Metrics } from '../../platform/metrics/metrics-registry.js';
import type { Category, NewCategory } from './category.dto.js';
import { CategoryEntity, type CategoryRow, toCategory } from './category.entity.js';

/** Lists and creates categories. */
@Injectable()
export class CategoriesService {
  private readonly all: ListSnapshot<CategoryRow>;
  private readonly creates: GroupCommit<CategoryRow, Category>;

  constructor(@InjectDataSource() dataSource: DataSource, revision: Revision, metrics: Metrics) {
    this.all = new ListSnapshot(CategoryEntity, toCategory, dataSource, revision, metrics);
    this.creates = new GroupCommit(CategoryEntity, toCategory, dataSource, metrics);
  }

  /** All categories in id order; every create that was answered before is among them. */
  list(): JsonSnapshot | Promise<JsonSnapshot> {
    return this.all.current();
  }

  /** Stores a category. It is on disk when the promise resolves. */
  create(category: NewCategory): Promise<Category> {
    return this.creates.insert(category);
  }
}
