import { collectDefaultMetrics, Counter, Gauge } from 'prom-client';
import { COMMIT, type Product } from '../config/product.js';
import type { MetricsRegistry } from './prometheus-registry.js';

/** Gauges of prom-client that are sums of others, and whose names `promtool check metrics` rejects. */
const SUMS = ['handles', 'requests', 'resources'].map((name) => `nodejs_active_${name}_total`);

/** Registers the metrics of the process: the build, the event loop, and prom-client's default metrics. */
export function addProcessMetrics(registry: MetricsRegistry, { version }: Product): void {
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const sum of SUMS) registry.removeSingleMetric(sum);
  new Gauge({
    name: 'service_build_info',
    help: 'The version of the service and its commit, which is empty if unknown.',
    labelNames: ['version', 'commit'],
    registers,
  }).set({ version, commit: COMMIT ?? '' }, 1);
  new Counter({
    name: 'nodejs_eventloop_time_seconds_total',
    help: 'How long the event loop was active and idle, by state.',
    labelNames: ['nodejs_eventloop_state'],
    registers,
    collect() {
      const { active, idle } = performance.eventLoopUtilization();
      this.reset();
      this.inc({ nodejs_eventloop_state: 'active' }, active / 1000);
      this.inc({ nodejs_eventloop_state: 'idle' }, idle / 1000);
    },
  });
}
