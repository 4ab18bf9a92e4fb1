import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';

/** One line of the log: its level, and everything that was given to the logger. */
export interface LogEntry {
  readonly level: 'log' | 'error' | 'warn' | 'debug' | 'verbose' | 'fatal';
  readonly values: readonly unknown[];
}

/** A logger that keeps what it is told, at every level. */
export class MemoryLogger implements LoggerService {
  readonly entries: LogEntry[] = [];

  log = this.at('log');
  error = this.at('error');
  warn = this.at('warn');
  debug = this.at('debug');
  verbose = this.at('verbose');
  fatal = this.at('fatal');

  /** Everything as one text, the inside of errors included. */
  get text(): string {
    return this.entries.map((entry) => inspect(entry, { depth: 10 })).join('\n');
  }

  /** The entries that carry a request id. */
  forRequest(requestId: string | undefined): LogEntry[] {
    return this.entries.filter(({ values }) =>
      values.some(
        (value) =>
          typeof value === 'object' &&
          value !== null &&
          'requestId' in value &&
          value.requestId === requestId,
      ),
    );
  }

  private at(level: LogEntry['level']): (...values: unknown[]) => void {
    return (...values) => this.entries.push({ level, values });
  }
}
