import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { NAME } from '../config/product.js';
import { DatabaseConnection } from '../database/connection/database-connection.js';
import { MetricsRegistry } from '../metrics/prometheus-registry.js';
import { ApiKeyGuard } from './api-key.guard.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { ApiKey } from './keys/api-key.entity.js';
import { ApiKeysService } from './keys/api-keys.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([ApiKey])],
  providers: [ApiKeysService, ApiKeyVerifier, ApiKeyGuard],
  exports: [ApiKeysService, ApiKeyGuard],
})
export class AuthModule implements OnModuleInit {
  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly database: DatabaseConnection,
    private readonly keys: ApiKeysService,
    private readonly verifier: ApiKeyVerifier,
    private readonly metrics: MetricsRegistry,
  ) {}

  onModuleInit(): void {
    const help = 'API keys in recent use that expire within 7 days.';
    this.metrics.addGauge(`${NAME}_api_keys_expiring`, help, () => this.verifier.countExpiring());
    const { bootstrapApiKey } = this.config;
    if (bootstrapApiKey === undefined) return;
    this.database.onReady(() => this.keys.ensureKey(bootstrapApiKey, 'bootstrap'));
  }
}
