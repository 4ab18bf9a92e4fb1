import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config.js';
import { DatabaseConnection } from '../database/connection.js';
import { ApiKeyGuard } from './api-key.guard.js';
import { ApiKey } from './api-keys.entity.js';
import { ApiKeysService } from './api-keys.service.js';
import { FailedAuthentications } from './failed-authentications.js';

@Module({
  imports: [TypeOrmModule.forFeature([ApiKey])],
  providers: [ApiKeysService, ApiKeyGuard, FailedAuthentications],
  exports: [ApiKeysService, ApiKeyGuard],
})
export class AuthModule implements OnModuleInit {
  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly database: DatabaseConnection,
    private readonly keys: ApiKeysService,
  ) {}

  onModuleInit(): void {
    const { bootstrapApiKey } = this.config;
    if (bootstrapApiKey === undefined) return;
    this.database.whenOpen(() => this.keys.ensure(bootstrapApiKey, 'bootstrap'));
  }
}
