import { Controller, Get, Res, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Response } from 'express';
import { MetricsRegistry } from './metrics-registry.js';

/** What Prometheus scrapes, with an API key as its bearer token. Not part of the published interface. */
@ApiExcludeController()
@Controller({ version: VERSION_NEUTRAL })
export class MetricsController {
  constructor(private readonly metrics: MetricsRegistry) {}

  @Get('metrics')
  async scrape(@Res() response: Response): Promise<void> {
    const { contentType, text } = await this.metrics.expose();
    response.setHeader('Content-Type', contentType);
    response.end(text);
  }
}
