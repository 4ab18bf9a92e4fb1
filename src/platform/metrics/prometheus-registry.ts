import { Injectable } from '@nestjs/common';
import { Gauge, Registry } from 'prom-client';

/** The metrics of one application: pass it to one of prom-client as `new Counter({ name, help, registers: [registry] })`. */
@Injectable()
export class MetricsRegistry extends Registry {
  /** Registers a gauge whose value is read when the metrics are. */
  addGauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this],
      collect() {
        this.set(read());
      },
    });
  }
}
