import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { IsIn, IsOptional, Matches, registerDecorator, validateSync } from 'class-validator';

/** The levels of `LOG_LEVEL`, from the quietest to the most talkative. */
export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'verbose'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The injection token of the `Config`. */
export const CONFIG = Symbol('CONFIG');

/** Where the data lives: a SQLite file, or a PostgreSQL server. */
export type DatabaseConfig =
  | { readonly type: 'sqlite'; readonly file: string }
  | {
      readonly type: 'postgres';
      readonly url: string;
      /** How many connections this process opens at most. */
      readonly poolSize: number;
      /** How long a free connection is waited for, in milliseconds. */
      readonly connectTimeout: number;
    };

/** The configuration of one running service: read once at the start, checked, and frozen. */
export interface Config {
  /** `NODE_ENV` is `production`: JSON logs, and no key is ever printed. */
  readonly production: boolean;
  /** The address to listen on. */
  readonly host: string;
  /** The TCP port to listen on; 0 takes any free one. */
  readonly port: number;
  readonly database: DatabaseConfig;
  /** How long a query may take on PostgreSQL, in milliseconds; then the request is answered with 503. */
  readonly queryTimeout: number;
  /** A key that is valid from the first start on. */
  readonly bootstrapApiKey: string | undefined;
  /** The address at which clients reach the service; its path ends in `/v1`. */
  readonly publicBaseUrl: string;
  /** The same of the staging deployment, for the document's `servers`. */
  readonly stagingBaseUrl: string | undefined;
  readonly logLevel: LogLevel;
  /** Origins whose pages may call the service from a browser. */
  readonly corsOrigins: readonly string[];
  /** Express's `trust proxy`: a number of hops, or addresses and subnets separated by commas. */
  readonly trustProxy: number | string | undefined;
  /** How many invalid keys an address may send in a minute; 0 for any number. */
  readonly authFailuresPerMinute: number;
  /** How many requests a key may send in a minute; 0 for any number. */
  readonly keyRequestsPerMinute: number;
  /** The largest request body, in bytes, also after decompression. */
  readonly bodyLimit: number;
  /** How long an idle connection is kept open, in milliseconds. */
  readonly keepAliveTimeout: number;
  /** How long `/readyz` says 503 before new connections are refused, in milliseconds. */
  readonly shutdownDelay: number;
}

/** The configuration is unusable. `problems` names each variable and what is wrong, never its value. */
export class ConfigError extends Error {
  constructor(readonly issues: readonly string[]) {
    super(
      `The configuration is not usable:\n${issues.map((problem) => `  - ${problem}`).join('\n')}`,
    );
    this.name = 'ConfigError';
  }
}

const SIZE_UNITS = { b: 1, kb: 1024, mb: 1024 ** 2 };
const SIZE = /^([1-9]\d{0,8})(b|kb|mb)?$/i;
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

/** Declares what the text of a variable must be, in the words that complete its name. */
function Check(isValid: (value: string) => boolean, message: string): PropertyDecorator {
  return (target, property) =>
    registerDecorator({
      target: target.constructor,
      propertyName: property as string,
      options: { message: `$property ${message}` },
      validator: { validate: (value: unknown) => typeof value === 'string' && isValid(value) },
    });
}

function IntegerInRange(min: number, max: number): PropertyDecorator {
  return Check(
    (text) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max,
    `must be a whole number from ${min} to ${max}`,
  );
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}

/** What the public document may show: an address, and no password of anybody. */
function isBaseUrl(text: string): boolean {
  if (!isHttpUrl(text)) return false;
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname.endsWith('/v1') && search + hash + username + password === '';
}

/** What Express takes for a proxy: an address, a subnet, or the name of a range. */
function isProxy(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', prefix = '0', ...rest] = text.split('/');
  const bits = isIP(address) === 4 ? 32 : 128;
  return (
    isIP(address) !== 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits && rest.length === 0
  );
}

/** The environment as text, named as operators write it; the rules of each variable stand beside it. */
class Environment {
  @IsOptional()
  @Matches(/^\S+$/, { message: '$property must be an address or a host name' })
  HOST?: string;

  @IsOptional()
  @IntegerInRange(0, 65535)
  PORT?: string;

  @IsOptional()
  @Check(
    (url) => /^sqlite:(?!:memory:|\/\/(?!\/))./.test(url) || /^postgres(ql)?:\/\/./.test(url),
    'must be sqlite:<file> or postgres://<user>:<password>@<host>:<port>/<database>',
  )
  DATABASE_URL?: string;

  @IsOptional()
  @IntegerInRange(2, 1000)
  DATABASE_POOL_SIZE?: string;

  @IsOptional()
  @IntegerInRange(100, 60_000)
  DATABASE_CONNECT_TIMEOUT_MS?: string;

  @IsOptional()
  @IntegerInRange(100, 60_000)
  DATABASE_QUERY_TIMEOUT_MS?: string;

  @IsOptional()
  @Check(
    (key) => key.length >= 32 && key.length <= 256 && TOKEN.test(key),
    'must be 32 to 256 characters of A-Z, a-z, 0-9 and -._~+/, with = at the end only',
  )
  BOOTSTRAP_API_KEY?: string;

  @IsOptional()
  @Check(isBaseUrl, 'must be an http or https URL whose path ends in /v1')
  PUBLIC_BASE_URL?: string;

  @IsOptional()
  @Check(isBaseUrl, 'must be an http or https URL whose path ends in /v1')
  STAGING_BASE_URL?: string;

  @IsOptional()
  @IsIn(LOG_LEVELS)
  LOG_LEVEL?: LogLevel;

  @IsOptional()
  @Check(
    (origins) =>
      splitList(origins).every((origin) => isHttpUrl(origin) && new URL(origin).origin === origin),
    'must be origins like https://app.example, separated by commas',
  )
  CORS_ORIGINS?: string;

  @IsOptional()
  @Check(
    (hops) => /^\d{1,2}$/.test(hops) || splitList(hops).every(isProxy),
    'must be a number of proxies, or addresses and subnets separated by commas',
  )
  TRUST_PROXY?: string;

  @IsOptional()
  @IntegerInRange(0, 1_000_000)
  AUTH_FAILURES_PER_MINUTE?: string;

  // For each request of a key those of the last minute are gone through.
  @IsOptional()
  @IntegerInRange(0, 10_000)
  KEY_REQUESTS_PER_MINUTE?: string;

  @IsOptional()
  @Matches(SIZE, { message: '$property must be a size like 100kb or 1mb' })
  BODY_LIMIT?: string;

  @IsOptional()
  @IntegerInRange(1000, 3_600_000)
  KEEP_ALIVE_TIMEOUT_MS?: string;

  @IsOptional()
  @IntegerInRange(0, 5_000)
  SHUTDOWN_DELAY_MS?: string;
}

function splitList(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean);
}

function databaseConfig({
  DATABASE_URL: url = 'sqlite:data/petstore.sqlite',
  DATABASE_POOL_SIZE: poolSize = '10',
  DATABASE_CONNECT_TIMEOUT_MS: connectTimeout = '2000',
}: Environment): DatabaseConfig {
  return url.startsWith('sqlite:')
    ? { type: 'sqlite', file: url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '') }
    : {
        type: 'postgres',
        url,
        poolSize: Number(poolSize),
        connectTimeout: Number(connectTimeout),
      };
}

function parseSize(size: string): number {
  const [, amount, unit = 'b'] = SIZE.exec(size)!;
  return Number(amount) * SIZE_UNITS[unit.toLowerCase() as keyof typeof SIZE_UNITS];
}

/**
 * Adds the variables of a `.env` file in the working directory, where there is one, to the
 * environment; what is set already stays. Call it once, before {@link loadConfig}.
 */
export function loadEnvFile(): void {
  if (existsSync('.env')) process.loadEnvFile('.env');
}

/**
 * Reads and checks the environment; the README lists its variables. An empty variable counts as
 * not set.
 *
 * @throws {ConfigError} with every problem at once, by name
 */
export function loadConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  // Of all names only such as ours: the environment may hold any, even `constructor`.
  const env = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => /^[A-Z_]+$/.test(name) && value !== ''),
  );
  const parsed = Object.assign(new Environment(), env);
  const errors = validateSync(parsed, { stopAtFirstError: true });
  if (errors.length > 0) {
    throw new ConfigError(errors.flatMap((error) => Object.values(error.constraints ?? {})));
  }

  const port = Number(parsed.PORT ?? 3000);
  const trustProxy = parsed.TRUST_PROXY;
  return Object.freeze({
    production: env['NODE_ENV'] === 'production',
    host: parsed.HOST ?? '127.0.0.1',
    port,
    database: Object.freeze(databaseConfig(parsed)),
    queryTimeout: Number(parsed.DATABASE_QUERY_TIMEOUT_MS ?? 2_000),
    bootstrapApiKey: parsed.BOOTSTRAP_API_KEY,
    publicBaseUrl: parsed.PUBLIC_BASE_URL ?? `http://localhost:${port}/v1`,
    stagingBaseUrl: parsed.STAGING_BASE_URL,
    logLevel: parsed.LOG_LEVEL ?? 'info',
    corsOrigins: Object.freeze(splitList(parsed.CORS_ORIGINS)),
    trustProxy: trustProxy && /^\d+$/.test(trustProxy) ? Number(trustProxy) : trustProxy,
    authFailuresPerMinute: Number(parsed.AUTH_FAILURES_PER_MINUTE ?? 300),
    keyRequestsPerMinute: Number(parsed.KEY_REQUESTS_PER_MINUTE ?? 0),
    bodyLimit: parseSize(parsed.BODY_LIMIT ?? '100kb'),
    keepAliveTimeout: Number(parsed.KEEP_ALIVE_TIMEOUT_MS ?? 72_000),
    shutdownDelay: Number(parsed.SHUTDOWN_DELAY_MS ?? 0),
  });
}
