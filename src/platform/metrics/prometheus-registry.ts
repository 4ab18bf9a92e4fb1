import { Injectable } from '@nestjs/common';
import { Gauge, Registry } from 'prom-client';

/** In seconds. A list takes less than a millisecond, a create a few; a request may take 10 seconds. */
export const DURATION_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** The metrics of one application: pass it to one of prom-client as `new Counter({ name, help, registers: [registry] })`. */
@Injectable()
export class MetricsRegistry extends Registry {
  /** Registers a gauge whose value is read when the metrics are. */
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
