import {
  Controller,
  Get,
  type OnModuleDestroy,
  SetMetadata,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../auth/public.decorator.js';
import { DatabaseStartup } from '../database/connection/database-startup.js';
import { ApiError } from '../errors/api-error.js';
import { Readiness } from './readiness.js';

/** The probes of load balancers and orchestrators. They are not part of the API. */
@ApiExcludeController()
@Controller({ version: VERSION_NEUTRAL })
export class HealthController implements OnModuleDestroy {
  private isShuttingDown = false;

  constructor(
    private readonly database: DatabaseStartup,
    private readonly readiness: Readiness,
  ) {}

  /** Liveness: the process responds. */
  @Public({ needsDatabase: false })
  @Get('livez')
  getLiveness(): { status: 'ok' } {
    return { status: 'ok' };
  }

  /** Readiness: the database can be written, the modules are ready, and the service is not shutting down. */
  @Public({ needsDatabase: false })
  // Nest's `CacheInterceptor`, which may be global, stores no response whose cache key is undefined.
  @SetMetadata('cache_module:cache_key', () => undefined)
  @Get('readyz')
  async getReadiness(): Promise<{ status: 'ok' }> {
    if (this.isShuttingDown) {
      throw new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down.', {
        headers: { 'Retry-After': '1' },
        skipLog: true,
      });
    }
    await this.database.checkWritable();
    await this.readiness.requireReady();
    return { status: 'ok' };
  }

  /** Nest calls it when the shutdown starts, before the server closes. */
  onModuleDestroy(): void {
    this.isShuttingDown = true;
  }
}
