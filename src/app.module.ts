import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE } from '@nestjs/core';
import { ApiKeyGuard } from './platform/auth/api-key.guard.js';
import { AuthModule } from './platform/auth/auth.module.js';
import { CategoriesModule } from './modules/categories/categories.module.js';
import { CONFIG, type Config } from './platform/config/config.js';
import { DatabaseModule } from './platform/database/database.module.js';
import { ErrorFilter } from './platform/http/error.filter.js';
import { HealthModule } from './platform/health/health.module.js';
import { JsonBodyGuard } from './platform/http/body/json-body.guard.js';
import { NotFoundController } from './platform/http/server/not-found.controller.js';
import { StrictValidationPipe } from './platform/http/validation/validation.pipe.js';
import { LifecycleGuard } from './platform/lifecycle/lifecycle.guard.js';
import { MetricsModule } from './platform/metrics/metrics.module.js';
import { PetsModule } from './modules/pets/pets.module.js';
import { StoreModule } from './modules/store/store.module.js';

/** Takes what no other route took, so it comes last. */
@Module({ imports: [AuthModule], controllers: [NotFoundController] })
class NotFoundModule {}

@Module({
  imports: [
    MetricsModule,
    DatabaseModule,
    AuthModule,
    CategoriesModule,
    PetsModule,
    StoreModule,
    HealthModule,
    NotFoundModule,
  ],
})
export class AppModule {
  static async forRoot(config: Config): Promise<DynamicModule> {
    // Loaded only where it is asked for.
    const keyRate =
      config.keyRequestsPerMinute > 0
        ? await import('./platform/auth/api-key-rate-limit.guard.js')
        : undefined;
    return {
      module: AppModule,
      global: true,
      imports: keyRate === undefined ? [] : [keyRate.createThrottlerModule(config)],
      providers: [
        { provide: CONFIG, useValue: config },
        // The guards run in this order: nothing of a body is read before the key is known.
        { provide: APP_GUARD, useExisting: ApiKeyGuard },
        ...(keyRate === undefined
          ? []
          : [{ provide: APP_GUARD, useClass: keyRate.ApiKeyRateLimitGuard }]),
        { provide: APP_GUARD, useClass: LifecycleGuard },
        { provide: APP_GUARD, useClass: JsonBodyGuard },
        { provide: APP_PIPE, useClass: StrictValidationPipe },
        { provide: APP_FILTER, useClass: ErrorFilter },
      ],
      exports: [CONFIG],
    };
  }
}
