import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Counter } from 'prom-client';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseStartup } from '../database/connection/database-startup.js';
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
    private readonly database: DatabaseStartup,
    private readonly keys: ApiKeysService,
    private readonly verifier: ApiKeyVerifier,
    private readonly guard: ApiKeyGuard,
    private readonly metrics: MetricsRegistry,
  ) {}

  onModuleInit(): void {
    const help = 'API keys in recent use that expire within 7 days.';
    this.metrics.addGauge('service_api_keys_expiring', help, () => this.verifier.countExpiring());
    const { bootstrapApiKey, metricsPort } = this.config;
    if (bootstrapApiKey !== undefined)
      this.database.onReady(() => this.keys.ensureKey(bootstrapApiKey, 'bootstrap'));
    if (metricsPort === undefined) return;
    const { verifier, guard } = this;
    const registers = [this.metrics];
    new Counter({
      name: 'service_authentication_failures_total',
      help: 'Failed authentication attempts. Concurrent requests with the same invalid API key are one attempt.',
      registers,
      collect() {
        this.reset();
        this.inc(verifier.failureLog.count);
      },
    });
    new Counter({
      name: 'service_api_key_requests_total',
      help: 'Requests with a valid API key, by the id of the key, or `other` after the first 1,000 keys.',
      labelNames: ['api_key_id'],
      registers,
      collect() {
        this.reset();
        for (const [id, count] of guard.requests) this.inc({ api_key_id: id }, count);
      },
    });
    new Counter({
      name: 'service_rate_limited_requests_total',
      help: 'Requests that exceeded a rate limit, by the limit.',
      labelNames: ['policy'],
      registers,
      collect() {
        this.reset();
        for (const { policy, rejected } of [verifier.failures, verifier.allFailures, guard.limiter])
          this.inc({ policy }, rejected);
      },
    });
  }
}
