import { Injectable } from '@nestjs/common';
import type { ObjectLiteral, Repository } from 'typeorm';
import { IdempotentInserter } from '../idempotency/idempotent-inserter.js';
import { DatabaseConnection } from '../database/connection/database-connection.js';
import { requireWritableColumns } from '../database/statements/row-mapping.js';
import { CachedList, type RowChunks } from '../database/lists/cached-list.js';
import { DatabaseMetrics } from '../metrics/database-metrics.js';
import { TableRevisionTracker } from '../database/lists/table-revision-tracker.js';

/** Gives an entity its cached list and its batched insert. */
@Injectable()
export class ResourceKit {
  constructor(
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
    private readonly database: DatabaseConnection,
  ) {}

  /**
   * Returns a list of the rows of a table, whole or in pages.
   *
   * @param build computes the cached value, such as a response, from the rows in id order; `next` is the
   *   `after` of the next page, and undefined if there is none
   */
  cachedList<Entity extends ObjectLiteral, Value>(
    repository: Repository<Entity>,
    build: (rows: RowChunks<Entity>, next?: number | string) => Promise<Value>,
  ): CachedList<Entity, Value> {
    return new CachedList(repository, build, this.revisions, this.metrics);
  }

  /**
   * Returns an inserter of rows. If it could not store a required column, the startup fails.
   *
   * @param toResponse converts a new row to what the client gets
   */
  batchInserter<Entity extends ObjectLiteral, Response>(
    repository: Repository<Entity>,
    toResponse: (row: Entity) => Response,
  ): IdempotentInserter<Entity, Response> {
    this.database.onReady(async () => requireWritableColumns(repository.metadata));
    return new IdempotentInserter(repository, toResponse, this.metrics);
  }
}
