import { Injectable } from '@nestjs/common';
import { Gauge, Registry } from 'prom-client';

/** The buckets of durations, in seconds: a list takes less than 1 ms, a create a few, and a request at most 10 s. */
export const DURATION_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** The metrics of an application. Register one with `new Counter({ name, help, registers: [registry] })`. */
@Injectable()
export class MetricsRegistry extends Registry {
  /** Registers a gauge whose value is read at each scrape. */
  addGauge(name: string, help: string, read: () => number | Promise<number>): void {
    new Gauge({
      name,
      help,
      registers: [this],
      async collect() {
        this.set(await read());
      },
    });
  }
}
