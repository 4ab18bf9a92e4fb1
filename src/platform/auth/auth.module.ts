import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseConnection } from '../database/connection/database-connection.js';
import { MetricsRegistry } from '../metrics/prometheus-registry.js';
import { ApiKeyGuard } from './api-key.guard.js';
import { ApiKey } from './keys/api-key.entity.js';
import { ApiKeysService } from './keys/api-keys.service.js';
import { AuthFailureLimiter } from './auth-failure-limiter.js';

@Module({
  imports: [TypeOrmModule.forFeature([ApiKey])],
  providers: [ApiKeysService, ApiKeyGuard, AuthFailureLimiter],
  exports: [ApiKeysService, ApiKeyGuard],
})
export class AuthModule implements OnModuleInit {
  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly database: DatabaseConnection,
    private readonly keys: ApiKeysService,
    private readonly metrics: MetricsRegistry,
  ) {}

  onModuleInit(): void {
    const help = 'API keys in recent use that expire within 7 days.';
    this.metrics.addGauge('petstore_api_keys_expiring', help, () => this.keys.countExpiring());
    const { bootstrapApiKey } = this.config;
    if (bootstrapApiKey === undefined) return;
    this.database.onReady(() => this.keys.ensureKey(bootstrapApiKey, 'bootstrap'));
  }
}
