import { Module, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { DatabaseAvailability } from '../database/connection/database-availability.js';
import { DatabaseUnavailableError } from '../database/connection/driver-errors.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';
import { HealthController } from './health.controller.js';

@Module({ controllers: [HealthController] })
export class HealthModule implements OnModuleInit {
  constructor(
    private readonly host: HttpAdapterHost<HttpAdapter>,
    private readonly availability: DatabaseAvailability,
  ) {}

  /** Counts the requests that are refused during an outage, for the log. */
  onModuleInit(): void {
    this.host.httpAdapter.onResponse(({ error, route }) => {
      if (error instanceof DatabaseUnavailableError && route?.path !== '/readyz')
        this.availability.recordRefusedRequest(error);
    });
  }
}
