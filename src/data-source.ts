import type { Type } from '@nestjs/common';
import { ApiKey } from './platform/auth/keys/api-key.entity.js';
import { CreateApiKeys1763600000000 } from './platform/auth/keys/migrations/1763600000000-create-api-keys.js';
import { AddApiKeyScopes1763600000003 } from './platform/auth/keys/migrations/1763600000003-add-api-key-scopes.js';
import { AddApiKeySuccessors1763600000009 } from './platform/auth/keys/migrations/1763600000009-add-api-key-successors.js';
import { CreateRateLimits1763600000005 } from './platform/auth/migrations/1763600000005-create-rate-limits.js';
import type { Config } from './platform/config/config.js';
import {
  databaseOptions,
  type Schema,
} from './platform/database/connection/data-source-options.js';
import { IdempotencyRecord } from './platform/idempotency/idempotency-record.entity.js';
import { CreateRevisions1763600000001 } from './platform/database/lists/migrations/1763600000001-create-revisions.js';
import { AlwaysRaiseRevisions1763600000008 } from './platform/database/lists/migrations/1763600000008-always-raise-revisions.js';
import { RandomizeRevisions1763600000006 } from './platform/database/lists/migrations/1763600000006-randomize-revisions.js';
import { CreateIdempotencyRecords1763600000004 } from './platform/idempotency/migrations/1763600000004-create-idempotency-records.js';
import { KeepIdempotencyRecords1763600000007 } from './platform/idempotency/migrations/1763600000007-keep-idempotency-records.js';
import { ServiceDataSource } from './platform/database/connection/service-data-source.js';
import { getFeature } from './platform/feature.decorator.js';

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
      ...declared.flatMap(({ migrations }) => migrations),
    ],
  } satisfies Schema;
}

/** Creates the DataSource of a command, of TypeORM's CLI or of a test, which is not connected yet. */
export function createDataSource(
  config: Pick<Config, 'database' | 'product'>,
  features: readonly Type[],
): ServiceDataSource {
  return new ServiceDataSource(databaseOptions(config, collectSchema(features)));
}
