import { Injectable } from '@nestjs/common';
import type { ObjectLiteral, Repository } from 'typeorm';
import { BatchInserter } from './batch-inserter.js';
import { CachedList } from './cached-list.js';
import { CachedPages } from './cached-pages.js';
import { DatabaseMetrics } from './database-metrics.js';
import { TableRevisionTracker } from './table-revision-tracker.js';

/** Speeds up the two operations that every client uses: listing the rows of a table, and creating one. */
@Injectable()
export class HotPaths {
  constructor(
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Returns a cached list of all rows of a table.
   *
   * @param build computes the cached value, such as a response, from the rows in id order
   */
  cachedList<Entity extends ObjectLiteral, Value>(
    repository: Repository<Entity>,
    build: (chunks: AsyncIterable<Entity[]>) => Promise<Value>,
  ): CachedList<Entity, Value> {
    return new CachedList(repository, build, this.revisions, this.metrics);
  }

  /**
   * Returns the pages of a table. The first pages are cached.
   *
   * @param build computes the value of a page, such as a response, from its rows in id order and the
   *   `after` of the next page
   */
  cachedPages<Entity extends ObjectLiteral, Value>(
    repository: Repository<Entity>,
    build: (rows: Entity[], next: number | undefined) => Value,
  ): CachedPages<Entity, Value> {
    return new CachedPages(repository, build, this.revisions, this.metrics);
  }

  /**
   * Returns an inserter that batches the rows of concurrent requests.
   *
   * @param toResponse converts a new row to what the client gets
   */
  batchInserter<Entity extends ObjectLiteral, Response>(
    repository: Repository<Entity>,
    toResponse: (row: Entity) => Response,
  ): BatchInserter<Entity, Response> {
    return new BatchInserter(repository, toResponse, this.metrics);
  }
}
