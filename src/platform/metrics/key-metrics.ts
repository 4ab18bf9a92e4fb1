import { Gauge, type Registry } from 'prom-client';

/** @param count returns the number of keys in recent use that expire within 7 days */
export function observeExpiringKeys(registry: Registry, count: () => number): void {
  new Gauge({
    name: 'petstore_api_keys_expiring',
    help: 'API keys in recent use that expire within 7 days.',
    registers: [registry],
    collect() {
      this.set(count());
    },
  });
}
