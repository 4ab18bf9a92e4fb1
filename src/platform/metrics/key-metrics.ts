import type { MetricsRegistry } from './prometheus-registry.js';

/** @param count returns the number of keys in recent use that expire within 7 days */
export function observeExpiringKeys(metrics: MetricsRegistry, count: () => number): void {
  const help = 'API keys in recent use that expire within 7 days.';
  metrics.addGauge('petstore_api_keys_expiring', help, count);
}
