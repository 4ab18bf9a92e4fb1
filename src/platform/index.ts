/**
 * The public names of the platform: what modules import, and nothing else. docs/platform.md describes them. Files of the
 * platform import each other directly, so that none depends on the order in which this one loads them.
 */

// Features
export { Feature } from './feature.decorator.js';
export { ApiError } from './errors/api-error.js';
export type { FeatureErrorCode } from './errors/error-codes.js';
export { CONFIG, type Config } from './config/config.js';
export type { Variables } from './config/environment-variables.js';
export { integer, oneOf, string } from './config/formats.js';
export type { Product } from './config/product.js';
export { Readiness } from './health/readiness.js';
export { MetricsRegistry } from './metrics/prometheus-registry.js';

// Operations
export { Operation } from './resource/operation/operation.decorator.js';
export { IdParam } from './resource/operation/id-param.decorator.js';
export { refuseQuery } from './resource/operation/unsupported.js';
export { PageParams } from './resource/operation/page-params.js';
export { JsonBody } from './resource/operation/json-body.decorator.js';
export { BinaryBody } from './resource/operation/binary-body.decorator.js';
export { IdempotencyKey } from './idempotency/idempotency-key.decorator.js';
export { IfMatch, type VersionCriteria } from './resource/operation/if-match.decorator.js';
export { ReturnsEtag } from './resource/operation/versioned.js';
export { Versioned } from './http/responses/versioned.js';
export { CachedJsonResponse } from './http/responses/cached-json-response.js';
export { ApiKeyId } from './auth/api-key-id.decorator.js';
export { Public } from './auth/public.decorator.js';
export { RequireScope } from './auth/scope.decorator.js';
export { Deprecated, Stability } from './deprecation/deprecation.decorators.js';

// DTOs
export { Property } from './validation/property.js';
export type { Schema } from './validation/schema.js';
export { MergePatch } from './resource/merge-patch.js';

// Resources
export { ResourceKit } from './resource/resource-kit.js';
export type { Complete, Resource } from './resource/resource.js';

// Entities and migrations
export {
  bigintTransformer,
  dateTimeTransformer,
  IdColumn,
  idColumn,
  uuidTransformer,
  VersionColumn,
  versionColumn,
} from './database/statements/columns.js';
export { addRevisionTrigger, dropRevisionTrigger } from './database/lists/revision-trigger.js';

// Statements
export { transactionOnce } from './idempotency/idempotency-records.js';
export { insertReturning, updateReturning } from './database/statements/row-statements.js';
export { toConstraintError } from './resource/constraint-error.js';
export { readRows } from './database/connection/service-data-source.js';
export { withDeadline } from './database/connection/deadline.js';
