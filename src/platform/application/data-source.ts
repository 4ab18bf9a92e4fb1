import type { Type } from '@nestjs/common';
import { ApiKey } from '../auth/keys/api-key.entity.js';
import { CreateApiKeys1763600000000 } from '../auth/keys/migrations/1763600000000-create-api-keys.js';
import { AddApiKeyScopes1763600000003 } from '../auth/keys/migrations/1763600000003-add-api-key-scopes.js';
import { AddApiKeySuccessors1763600000009 } from '../auth/keys/migrations/1763600000009-add-api-key-successors.js';
import { CreateRateLimits1763600000005 } from '../auth/migrations/1763600000005-create-rate-limits.js';
import type { Config } from '../config/config.js';
import {
  createServiceDataSource,
  databaseOptions,
  type Schema,
} from '../database/connection/create-data-source.js';
import { IdempotencyRecord } from '../idempotency/idempotency-record.entity.js';
import { CreateRevisions1763600000001 } from '../database/lists/migrations/1763600000001-create-revisions.js';
import { UnseedRevisions1763600000010 } from '../database/lists/migrations/1763600000010-unseed-revisions.js';
import { AlwaysRaiseRevisions1763600000008 } from '../database/lists/migrations/1763600000008-always-raise-revisions.js';
import { RandomizeRevisions1763600000006 } from '../database/lists/migrations/1763600000006-randomize-revisions.js';
import { CreateIdempotencyRecords1763600000004 } from '../idempotency/migrations/1763600000004-create-idempotency-records.js';
import { KeepIdempotencyRecords1763600000007 } from '../idempotency/migrations/1763600000007-keep-idempotency-records.js';
import type { ServiceDataSource } from '../database/connection/service-data-source.js';
import { getFeature } from '../feature.decorator.js';

/** Collects the entities and migrations of the platform and of the features. TypeORM orders migrations by their names. */
export function collectSchema(features: readonly Type[]) {
  const declared = features.map(getFeature);
  return {
    entities: [ApiKey, IdempotencyRecord, ...declared.flatMap(({ entities }) => entities)],
    migrations: [
      CreateApiKeys1763600000000,
      CreateRevisions1763600000001,
      AddApiKeyScopes1763600000003,
      CreateIdempotencyRecords1763600000004,
      CreateRateLimits1763600000005,
      RandomizeRevisions1763600000006,
      AlwaysRaiseRevisions1763600000008,
      KeepIdempotencyRecords1763600000007,
      AddApiKeySuccessors1763600000009,
      UnseedRevisions1763600000010,
      ...declared.flatMap(({ migrations }) => migrations),
    ],
  } satisfies Schema;
}

/** Creates a DataSource that is not connected yet, for commands, TypeORM's CLI and tests. */
export function createDataSource(
  config: Pick<Config, 'database' | 'product'>,
  features: readonly Type[],
): ServiceDataSource {
  return createServiceDataSource(databaseOptions(config, collectSchema(features)));
}
