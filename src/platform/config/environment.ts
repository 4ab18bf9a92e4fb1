import { isIP } from 'node:net';
import { IsIn, Matches, registerDecorator } from 'class-validator';
import leven from 'leven';
import { isDecodable, withHost } from './uri.js';

/** The levels of `LOG_LEVEL`, from least to most verbose. */
export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'verbose'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A size: digits and an optional unit. */
export const SIZE = /^([1-9]\d{0,8})(b|kb|mb)?$/i;
/** A bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

/** Requires the text of a variable to pass a check; the message completes a sentence that starts with its name. */
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
    `must be an integer from ${min} to ${max}`,
  );
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}

/** Whether a URL may be published: it ends in the version and contains no credentials. */
function isBaseUrl(text: string): boolean {
  if (!isHttpUrl(text)) return false;
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname.endsWith('/v1') && search + hash + username + password === '';
}

/** Whether a URL names a PostgreSQL server unambiguously: an unencoded `#`, `/` or `%` in its password would end it. */
function isPostgresUrl(text: string): boolean {
  if (!/^postgres(ql)?:\/\/./.test(text) || text.includes('#')) return false;
  return URL.canParse(withHost(text)) && isDecodable(text);
}

/** Whether Express accepts the text for `trust proxy`: an address, a subnet or the name of a range. */
function isProxy(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', prefix = '1', ...rest] = text.split('/');
  const bits = isIP(address) === 4 ? 32 : 128;
  return (
    isIP(address) !== 0 &&
    /^[1-9]\d{0,2}$/.test(prefix) &&
    Number(prefix) <= bits &&
    rest.length === 0
  );
}

/** Splits a comma-separated list, ignoring white space and empty items. */
export function splitList(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean);
}

/** Variables of earlier releases, and what applies instead. */
export const REMOVED_VARIABLES: Readonly<Record<string, string>> = {
  DATABASE_CONNECT_TIMEOUT_MS: 'the timeout is 2 seconds',
  DATABASE_QUERY_TIMEOUT_MS: 'the timeout is 2 seconds',
  KEY_LIMIT_STORE: 'each instance counts the requests per key',
  LOG_REQUESTS: 'LOG_LEVEL=debug logs each request',
  SLOW_REQUEST_MS: 'requests of a second or longer are logged',
  SOURCE_COMMIT: 'the build records the commit',
};

/** The environment variables as text, each with its validation rule. docs/configuration.md describes them. */
export class Environment {
  // Express, Nest and libraries know these three. A misspelled `Production` would print API keys.
  @IsIn(['production', 'development', 'test'])
  NODE_ENV?: 'production' | 'development' | 'test';

  @Matches(/^\S+$/, { message: '$property must be an address or a host name' })
  HOST?: string;

  @IntegerInRange(0, 65535)
  PORT?: string;

  @IntegerInRange(0, 65535)
  METRICS_PORT?: string;

  @Check(
    (url) => /^sqlite:(?!:memory:|\/\/(?!\/))./.test(url) || isPostgresUrl(url),
    'must be sqlite:<file> or postgres://<user>:<password>@<host>:<port>/<database>, with special characters of the password percent-encoded, such as %23 for #',
  )
  DATABASE_URL?: string;

  @IntegerInRange(2, 1000)
  DATABASE_POOL_SIZE?: string;

  @IsIn(['auto', 'off'])
  MIGRATIONS?: 'auto' | 'off';

  @Check(
    (key) => key.length >= 32 && key.length <= 256 && TOKEN.test(key),
    'must be 32 to 256 characters of A-Z, a-z, 0-9 and -._~+/, with = at the end only',
  )
  BOOTSTRAP_API_KEY?: string;

  @Check(isBaseUrl, 'must be an http or https URL whose path ends in /v1')
  PUBLIC_BASE_URL?: string;

  @Check(isBaseUrl, 'must be an http or https URL whose path ends in /v1')
  STAGING_BASE_URL?: string;

  @IsIn(LOG_LEVELS)
  LOG_LEVEL?: LogLevel;

  @Check(
    (origins) =>
      splitList(origins).every(
        (origin) => isHttpUrl(origin) && new URL(origin).origin === origin && !origin.includes('*'),
      ),
    'must be origins like https://app.example, without patterns, separated by commas',
  )
  CORS_ORIGINS?: string;

  @Check(
    (hops) => /^\d{1,2}$/.test(hops) || splitList(hops).every(isProxy),
    'must be a number of proxies, or addresses and subnets separated by commas',
  )
  TRUST_PROXY?: string;

  @IntegerInRange(0, 1_000_000)
  AUTH_FAILURES_PER_MINUTE?: string;

  @IntegerInRange(0, 1_000_000)
  KEY_REQUESTS_PER_MINUTE?: string;

  @Matches(SIZE, { message: '$property must be a size like 100kb or 1mb' })
  BODY_LIMIT?: string;

  @IntegerInRange(1000, 3_600_000)
  KEEP_ALIVE_TIMEOUT_MS?: string;

  @IntegerInRange(0, 60_000)
  SHUTDOWN_DELAY_MS?: string;
}

/**
 * Returns the names in an environment that resemble a variable of the service, such as `TRUST_PROXIES`,
 * with the variable that was probably meant. Up to a quarter of the characters may differ.
 */
export function findMisspelledVariables(
  env: NodeJS.ProcessEnv,
): { readonly name: string; readonly meant: string }[] {
  const known = Object.keys(new Environment());
  return Object.keys(env)
    .filter((name) => !known.includes(name) && !(name in REMOVED_VARIABLES))
    .flatMap((name) => {
      const maxDistance = Math.floor(name.length / 4);
      const meant = known.find((each) => leven(name.toUpperCase(), each) <= maxDistance);
      return meant === undefined ? [] : [{ name, meant }];
    });
}
