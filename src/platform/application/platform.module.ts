import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE } from '@nestjs/core';
import { collectSchema } from './data-source.js';
import { ApiKeyGuard } from '../auth/api-key.guard.js';
import { AuthModule } from '../auth/auth.module.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseModule } from '../database/database.module.js';
import { getFeatures } from '../feature.decorator.js';
import { HealthController } from '../health/health.controller.js';
import { Readiness } from '../health/readiness.js';
import { BodyParserGuard } from '../http/body/body-parser.guard.js';
import { SlowBodyCheck } from '../http/body/slow-body-check.js';
import { ResourceKit } from '../resource/resource-kit.js';
import { StrictValidationPipe } from '../validation/validation.pipe.js';
import { ErrorFilter } from '../http/responses/error.filter.js';
import { IdempotencyRecordsCleanup } from '../idempotency/idempotency-records-cleanup.js';
import { DeprecationGuard } from '../deprecation/deprecation.guard.js';
import { MetricsModule } from '../metrics/metrics.module.js';

/** The platform, the root module of a service, and the global guards, pipe and filter in their order. */
@Module({})
export class PlatformModule {
  static forRoot(config: Config, root: Type): DynamicModule {
    return {
      module: PlatformModule,
      global: true,
      imports: [
        MetricsModule,
        DatabaseModule.forRoot(collectSchema(getFeatures(root))),
        AuthModule,
        root,
      ],
      controllers: [HealthController],
      providers: [
        { provide: CONFIG, useValue: config },
        ResourceKit,
        Readiness,
        IdempotencyRecordsCleanup,
        // The guards run in this order: no byte of a body is read before the key is checked.
        { provide: APP_GUARD, useExisting: ApiKeyGuard },
        { provide: APP_GUARD, useClass: DeprecationGuard },
        { provide: APP_GUARD, useClass: BodyParserGuard },
        { provide: SlowBodyCheck, useExisting: ApiKeyGuard },
        { provide: APP_PIPE, useClass: StrictValidationPipe },
        { provide: APP_FILTER, useClass: ErrorFilter },
      ],
      exports: [CONFIG, ResourceKit, Readiness],
    };
  }
}
