import { ConsoleLogger } from '@nestjs/common';
import type { Config } from '../config/config.js';
import { LOG_LEVELS } from '../config/environment.js';

/** The parts of Nest that log every module and route at startup. */
const FRAMEWORK_LOG_CONTEXTS = new Set<unknown>([
  'NestFactory',
  'InstanceLoader',
  'RoutesResolver',
  'RouterExplorer',
  'NestApplication',
]);

/** Logs the startup messages of Nest itself at `debug`. */
class Logger extends ConsoleLogger {
  override log(message: unknown, ...rest: unknown[]): void {
    if (FRAMEWORK_LOG_CONTEXTS.has(rest.at(-1))) this.debug(message, ...rest);
    else super.log(message, ...rest);
  }
}

/** Creates the logger of the service: JSON lines in production, readable text otherwise. */
export function createLogger({ production, logLevel }: Config): ConsoleLogger {
  const levels = LOG_LEVELS.slice(0, LOG_LEVELS.indexOf(logLevel) + 1);
  return new Logger({
    prefix: 'Petstore',
    json: production,
    flattenParams: true,
    // Drivers and parsers put what a client sent into their errors, and a client may send its key anywhere.
    redact: ['parameters', 'detail', 'body', 'input'],
    // Nest calls the level `log` that is called `info` elsewhere.
    logLevels: levels.map((level) => (level === 'info' ? 'log' : level)),
  });
}

/** Whether messages of a level are logged. */
export function isLogged(
  { logLevel }: Pick<Config, 'logLevel'>,
  level: Config['logLevel'],
): boolean {
  return LOG_LEVELS.indexOf(logLevel) >= LOG_LEVELS.indexOf(level);
}
