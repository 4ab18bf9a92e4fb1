import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ObjectLiteral, Repository } from 'typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseStartup } from '../database/connection/database-startup.js';
import type { ListServices } from '../database/lists/cached-list.js';
import { refuseIgnoredFeatures } from '../database/statements/ignored-features.js';
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
    private readonly database: DatabaseStartup,
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
    // A provider of the request scope calls this for each request.
    if (this.database.isReady) refuseIgnoredFeatures(repository);
    else this.database.onReady(async () => refuseIgnoredFeatures(repository));
    return new Resource(repository, options, this);
  }
}
