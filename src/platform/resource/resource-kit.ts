import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ObjectLiteral, Repository } from 'typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { IdempotentInserter } from '../idempotency/idempotent-inserter.js';
import { DatabaseConnection } from '../database/connection/database-connection.js';
import { refuseIgnoredFeatures } from '../database/statements/ignored-features.js';
import { CachedList, type ListServices } from '../database/lists/cached-list.js';
import type { Paging, RowChunks } from '../database/lists/list-rows.js';
import type { CachedJsonResponse } from '../http/responses/cached-json-response.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';
import type { SharedBodies } from '../http/server/shared-bodies.js';
import { DatabaseMetrics } from '../metrics/database-metrics.js';
import { Resource, type ResourceOptions } from './resource.js';

/**
 * Gives an entity the operations of a resource. The startup fails if it has features of TypeORM that the statements of the
 * kit would ignore.
 */
@Injectable()
export class ResourceKit implements ListServices {
  constructor(
    @Inject(CONFIG) readonly config: Config,
    readonly metrics: DatabaseMetrics,
    private readonly database: DatabaseConnection,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {}

  /** The lists in memory. A testing module of Nest has no HTTP adapter until the application is created. */
  get bodies(): SharedBodies {
    return this.host.httpAdapter.http.sharedBodies;
  }

  /** Returns the operations on the rows of an entity. */
  resource<Entity extends ObjectLiteral, Body>(
    repository: Repository<Entity>,
    options: ResourceOptions<Entity, Body>,
  ): Resource<Entity, Body> {
    return new Resource(repository, options, this);
  }

  /**
   * Returns a list of the rows of a table, whole or in pages.
   *
   * @param build creates the response from the rows in id order
   * @param counts whether pages have a total
   */
  cachedList<Entity extends ObjectLiteral>(
    repository: Repository<Entity>,
    build: (rows: RowChunks<Entity>, paging: Paging) => Promise<CachedJsonResponse>,
    counts = false,
  ): CachedList<Entity> {
    return new CachedList(repository, build, this, counts);
  }

  /**
   * Returns an inserter of rows.
   *
   * @param toResponse converts a new row to what the client gets
   * @param bodyContainsId see {@link IdempotentInserter}
   */
  inserter<Entity extends ObjectLiteral, Response>(
    repository: Repository<Entity>,
    toResponse: (row: Entity) => Response,
    bodyContainsId = false,
  ): IdempotentInserter<Entity, Response> {
    this.database.onReady(async () => refuseIgnoredFeatures(repository));
    return new IdempotentInserter(repository, toResponse, this.metrics, bodyContainsId);
  }
}
