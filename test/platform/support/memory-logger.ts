import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';

/** A log entry: its level and all arguments of the call. */
export interface LogEntry {
  readonly level: 'log' | 'error' | 'warn' | 'debug' | 'verbose' | 'fatal';
  readonly values: readonly unknown[];
}

/** A logger that records the entries of every level in memory. */
export class MemoryLogger implements LoggerService {
  readonly entries: LogEntry[] = [];

  log = this.at('log');
  error = this.at('error');
  warn = this.at('warn');
  debug = this.at('debug');
  verbose = this.at('verbose');
  fatal = this.at('fatal');

  /** All entries as one text, including the properties and causes of errors. */
  get text(): string {
    return this.entries.map((entry) => inspect(entry, { depth: 10 })).join('\n');
  }

  /** @returns the entries with this request id, as in the header `X-Request-Id` of a response */
  forRequest(requestId: string | string[] | undefined): LogEntry[] {
    const matches = (value: unknown): boolean => Object(value).requestId === requestId;
    return this.entries.filter(({ values }) => values.some(matches));
  }

  private at(level: LogEntry['level']): (...values: unknown[]) => void {
    return (...values) => this.entries.push({ level, values });
  }
}
