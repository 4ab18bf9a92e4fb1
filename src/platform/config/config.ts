import { existsSync } from 'node:fs';
import { validateSync } from 'class-validator';
import {
  Environment,
  findMisspelledVariables,
  type LogLevel,
  REMOVED_VARIABLES,
  SIZE,
  splitList,
} from './environment.js';
import { withHost } from './uri.js';

/** The injection token of the {@link Config}. */
export const CONFIG = Symbol('CONFIG');

/** The database: a SQLite file or a PostgreSQL server. */
export type DatabaseConfig =
  | { readonly type: 'sqlite'; readonly file: string }
  | {
      readonly type: 'postgres';
      readonly url: string;
    };

/** The configuration of one running service: read once at startup, validated and frozen. */
export interface Config {
  /** `NODE_ENV` is `production`: JSON logs, and no key is ever printed. */
  readonly production: boolean;
  /** The address to listen on. */
  readonly host: string;
  /** The TCP port to listen on; 0 picks a free one. */
  readonly port: number;
  /** The TCP port of the metrics listener; 0 picks a free one. */
  readonly metricsPort: number | undefined;
  readonly database: DatabaseConfig;
  /** The maximum number of connections of this process to PostgreSQL. */
  readonly databasePoolSize: number;
  /** Whether the service migrates the schema at startup. */
  readonly migrations: 'auto' | 'off';
  /** A key that is valid from the first start. */
  readonly bootstrapApiKey: string | undefined;
  /** The address that clients use, if it is configured; its path ends in `/v1`. */
  readonly publicBaseUrl: string | undefined;
  /** The address of the staging deployment, for the `servers` of the OpenAPI document. */
  readonly stagingBaseUrl: string | undefined;
  readonly logLevel: LogLevel;
  /** The origins whose pages may call the service from a browser. */
  readonly corsOrigins: readonly string[];
  /** Express's `trust proxy`: a number of hops, or addresses and subnets separated by commas. */
  readonly trustProxy: number | string | undefined;
  /** Invalid keys allowed per client address per minute; 0 disables the limit. */
  readonly authFailuresPerMinute: number;
  /** Requests allowed per key per minute; 0 disables the limit. */
  readonly keyRequestsPerMinute: number;
  /** The maximum size of a request body, in bytes, also after decompression. */
  readonly bodyLimit: number;
  /** How long an idle connection is kept open, in milliseconds. */
  readonly keepAliveTimeout: number;
  /** How long `/readyz` responds 503 before new connections are refused, in milliseconds. */
  readonly shutdownDelay: number;
}

/** The configuration is invalid. `issues` names each variable and its problem, never its value. */
export class ConfigError extends Error {
  constructor(readonly issues: readonly string[]) {
    super(`Invalid configuration:\n${issues.map((issue) => `  - ${issue}`).join('\n')}`);
    this.name = 'ConfigError';
  }
}

/**
 * Adds the variables of a `.env` file in the working directory, if there is one, to the environment.
 * Variables that are already set keep their value. Call it once, before {@link loadConfig}.
 */
export function loadEnvFile(): void {
  if (existsSync('.env')) process.loadEnvFile('.env');
}

/** Whether `NODE_ENV` is `production`, before the rest of the environment is validated. */
export function isProduction(): boolean {
  return process.env['NODE_ENV'] === 'production';
}

/** Returns a line for each variable that was removed, or is probably a misspelled one of the service. */
export function getConfigWarnings(): string[] {
  const removed = Object.entries(REMOVED_VARIABLES).filter(([name]) => process.env[name]);
  return [
    ...removed.map(([name, instead]) => `${name} was removed and has no effect: ${instead}`),
    ...findMisspelledVariables(process.env).map(
      ({ name, meant }) => `Unknown variable ${name}: did you mean ${meant}?`,
    ),
  ];
}

/** Returns the configuration for the log: without the bootstrap key, and the user and password of the database. */
export function redactConfig(config: Config): Partial<Config> {
  const redacted = { ...config, bootstrapApiKey: undefined };
  const { database } = config;
  if (database.type === 'sqlite') return redacted;
  const { host, pathname } = new URL(withHost(database.url));
  return { ...redacted, database: { ...database, url: `postgres://${host}${pathname}` } };
}

/**
 * Reads and validates the environment. An empty variable counts as unset.
 *
 * @throws {ConfigError} with every problem at once, by variable name
 */
export function loadConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  // Only upper-case names; others could collide with inherited properties such as `constructor`.
  const env = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => /^[A-Z_]+$/.test(name) && value !== ''),
  );
  const parsed = Object.assign(new Environment(), env);
  const issues = validateSync(parsed, {
    stopAtFirstError: true,
    skipUndefinedProperties: true,
  }).flatMap((error) => Object.values(error.constraints ?? {}));
  if (parsed.METRICS_PORT === (parsed.PORT ?? '3000') && parsed.METRICS_PORT !== '0')
    issues.push('METRICS_PORT must differ from PORT');
  if (issues.length > 0) throw new ConfigError(issues);

  const port = Number(parsed.PORT ?? 3000);
  const { METRICS_PORT: metricsPort, TRUST_PROXY: trustProxy } = parsed;
  return Object.freeze({
    production: parsed.NODE_ENV === 'production',
    host: parsed.HOST ?? '127.0.0.1',
    port,
    metricsPort: metricsPort === undefined ? undefined : Number(metricsPort),
    database: Object.freeze(databaseConfig(parsed)),
    databasePoolSize: Number(parsed.DATABASE_POOL_SIZE ?? 10),
    migrations: parsed.MIGRATIONS ?? 'auto',
    bootstrapApiKey: parsed.BOOTSTRAP_API_KEY,
    publicBaseUrl: parsed.PUBLIC_BASE_URL,
    stagingBaseUrl: parsed.STAGING_BASE_URL,
    logLevel: parsed.LOG_LEVEL ?? 'info',
    corsOrigins: Object.freeze(splitList(parsed.CORS_ORIGINS)),
    trustProxy:
      trustProxy && /^\d+$/.test(trustProxy)
        ? Number(trustProxy)
        : trustProxy && splitList(trustProxy).join(','),
    authFailuresPerMinute: Number(parsed.AUTH_FAILURES_PER_MINUTE ?? 300),
    keyRequestsPerMinute: Number(parsed.KEY_REQUESTS_PER_MINUTE ?? 0),
    bodyLimit: parseSize(parsed.BODY_LIMIT ?? '100kb'),
    keepAliveTimeout: Number(parsed.KEEP_ALIVE_TIMEOUT_MS ?? 72_000),
    shutdownDelay: Number(parsed.SHUTDOWN_DELAY_MS ?? 0),
  });
}

function databaseConfig({
  DATABASE_URL: url = 'sqlite:data/petstore.sqlite',
}: Environment): DatabaseConfig {
  return url.startsWith('sqlite:')
    ? { type: 'sqlite', file: url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '') }
    : {
        type: 'postgres',
        url,
      };
}

/** Converts a size such as `100kb` to bytes. */
function parseSize(size: string): number {
  const units = { b: 1, kb: 1024, mb: 1024 ** 2 };
  const [, amount, unit = 'b'] = SIZE.exec(size)!;
  return Number(amount) * units[unit.toLowerCase() as keyof typeof units];
}
