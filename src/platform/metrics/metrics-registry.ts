import { Injectable } from '@nestjs/common';
import { Registry } from 'prom-client';

/**
 * The Prometheus metrics of one application. Pass it as a registry to a metric of prom-client:
 * `new Counter({ name, help, registers: [registry] })`.
 */
@Injectable()
export class MetricsRegistry extends Registry {}
