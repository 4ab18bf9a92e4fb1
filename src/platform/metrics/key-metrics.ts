import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { MetricsRegistry } from './metrics-registry.js';

/** The metrics of API keys. */
@Injectable()
export class KeyMetrics {
  constructor(private readonly registry: MetricsRegistry) {}

  /** @param count returns the number of keys in recent use that expire within 7 days */
  observeExpiring(count: () => number): void {
    new Gauge({
      name: 'petstore_api_keys_expiring',
      help: 'API keys in recent use that expire within 7 days.',
      registers: [this.registry],
      collect() {
        this.set(count());
      },
    });
  }
}
