import { Injectable } from '@nestjs/common';
import type { Metric, MetricType, Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

/** A number that only grows: `counter.value++`. */
export interface Counter {
  value: number;
}

/** How often values of which size were seen. */
export class Histogram {
  sum = 0;
  /** How many values lie between a bound and the one before it; the last counts those above all bounds. */
  readonly counts: number[];

  /** @param bounds the upper bounds of the buckets, ascending */
  constructor(readonly bounds: readonly number[]) {
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
    this.counts[bucket]!++;
    this.sum += value;
  }
}

/** One line of the exposition. */
interface Sample {
  readonly metricName: string;
  readonly labels: Labels | { le: number | string };
  readonly value: number;
}

/** All that has one name: its description, and what gives its lines. */
interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: `${MetricType}`;
  readonly series: (() => Sample[])[];
}

/**
 * The figures of the service, for Prometheus. A feature asks for a counter or a histogram once and
 * then only raises plain numbers, which costs nanoseconds; prom-client looks its labels up anew with
 * every value, and is loaded by the first scrape: a service that nobody scrapes does without it.
 */
@Injectable()
export class MetricsRegistry {
  private readonly families = new Map<string, Family>();
  private registry: Promise<Registry> | undefined;

  /** @param name ends in `_total`; several counters may share it, each with its own labels */
  counter(name: string, help: string, labels: Labels = {}): Counter {
    const counter = { value: 0 };
    this.gauge(name, help, () => counter.value, labels, 'counter');
    return counter;
  }

  /** A histogram; several may share a name, each with its own labels. */
  histogram(name: string, help: string, bounds: readonly number[], labels: Labels = {}): Histogram {
    const histogram = new Histogram(bounds);
    this.add(name, help, 'histogram', () => {
      let below = 0;
      const buckets = [...bounds, '+Inf'].map((le, index) => ({
        metricName: `${name}_bucket`,
        labels: { ...labels, le },
        value: (below += histogram.counts[index]!),
      }));
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: histogram.sum },
        { metricName: `${name}_count`, labels, value: below },
      ];
    });
    return histogram;
  }

  /** @param read gives the value at the time of a scrape */
  gauge(
    name: string,
    help: string,
    read: () => number,
    labels: Labels = {},
    type: 'gauge' | 'counter' = 'gauge',
  ): void {
    this.add(name, help, type, () => [{ metricName: name, labels, value: read() }]);
  }

  /** Everything in the text format of Prometheus, with the content type of that format. */
  async expose(): Promise<{ contentType: string; text: string }> {
    const registry = await (this.registry ??= this.makeRegistry());
    for (const family of this.families.values()) register(registry, family);
    return { contentType: registry.contentType, text: await registry.metrics() };
  }

  private add(name: string, help: string, type: Family['type'], read: () => Sample[]): void {
    const family = this.families.get(name) ?? { name, help, type, series: [] };
    family.series.push(read);
    this.families.set(name, family);
  }

  /** With the figures of the process, of its garbage collector and of its event loop from now on. */
  private async makeRegistry(): Promise<Registry> {
    const { collectDefaultMetrics, Registry: PrometheusRegistry } = await import('prom-client');
    const registry = new PrometheusRegistry();
    collectDefaultMetrics({ register: registry });
    return registry;
  }
}

/** Of a metric the registry asks only for its name and for what `get` gives. */
function register(registry: Registry, { name, help, type, series }: Family): void {
  if (registry.getSingleMetric(name) !== undefined) return;
  registry.registerMetric({
    name,
    get: async () => ({
      name,
      help,
      type,
      aggregator: 'sum',
      values: series.flatMap((read) => read()),
    }),
  } as unknown as Metric);
}
