import { Controller, Get, VERSION_NEUTRAL } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ApiExcludeController } from '@nestjs/swagger';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { Public } from '../auth/public.decorator.js';
import { DatabaseConnection } from '../database/database-connection.js';
import { databaseUnavailable } from '../database/driver-errors.js';
import { ApiError } from '../errors/api-error.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';

/** What a load balancer or an orchestrator asks. Not part of the published interface. */
@ApiExcludeController()
@Controller({ version: VERSION_NEUTRAL })
export class HealthController {
  constructor(
    private readonly host: HttpAdapterHost<HttpAdapter>,
    private readonly database: DatabaseConnection,
    @InjectDataSource() private readonly dataSource: DataSource,
  ) {}

  /** The process lives. */
  @Public()
  @Get('livez')
  live(): { status: 'ok' } {
    return { status: 'ok' };
  }

  /** Requests may be sent here: the service is not stopping, and its database answers. */
  @Public()
  @Get('readyz')
  async ready(): Promise<{ status: 'ok' }> {
    if (this.host.httpAdapter.stopping) {
      throw new ApiError('SERVICE_UNAVAILABLE', 'The service is stopping.', { 'Retry-After': '1' });
    }
    if (!this.database.isReady) throw databaseUnavailable();
    await this.dataSource.query('SELECT 1');
    return { status: 'ok' };
  }
}
