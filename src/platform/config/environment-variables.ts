import * as formats from './formats.js';
import type { Product } from './product.js';

export interface Variable {
  readonly name: string;
  readonly format: formats.Format<unknown>;
  /** The text that applies if the variable is unset. Without a default, the value is undefined. */
  readonly default?: string;
  /** Whether the variable `<name>_FILE` may name a file that contains the text. */
  readonly secret?: true;
  /** In Markdown, for docs/configuration.md. */
  readonly description: string;
}

/** Environment variables, by their property of `Config`. */
export type Variables = Readonly<Record<string, Variable>>;

/**
 * Declares the environment variables of a service, by their property of `Config`. `npm run docs:tables` writes
 * docs/configuration.md and .env.example from it.
 */
// prettier-ignore
export const declareVariables = ({ name, keyPrefixes }: Pick<Product, 'name' | 'keyPrefixes'>) => ({
  host: { name: 'HOST', format: formats.HOST, default: '127.0.0.1',
    description: 'where to listen, for the API and the metrics; `0.0.0.0` listens on all IPv4 addresses' },
  port: { name: 'PORT', format: formats.integer(0, 65_535), default: '3000',
    description: 'TCP port of the API; `0` picks a free one' },
  metricsPort: { name: 'METRICS_PORT', format: formats.integer(0, 65_535),
    description: 'TCP port that serves `/metrics` without an API key; `0` picks a free one; metrics are not served without it' },
  database: { name: 'DATABASE_URL', format: formats.DATABASE_URL, default: `sqlite:data/${name}.sqlite`, secret: true,
    description: 'the database; for a Unix socket, the host is its directory, such as `%2Frun%2Fpostgresql`' },
  databasePoolSize: { name: 'DATABASE_POOL_SIZE', format: formats.integer(2, 1000), default: '10',
    description: 'PostgreSQL: maximum number of connections of this process, 30 % of them for statements that change nothing' },
  migrations: { name: 'MIGRATIONS', format: formats.oneOf('auto', 'off'), default: 'auto',
    description: '`off` requires pending migrations to be applied [explicitly](install.md#migrations)' },
  bootstrapApiKey: { name: 'BOOTSTRAP_API_KEY', format: formats.apiKey(keyPrefixes), secret: true,
    description: 'a key that is valid from the first start; stored as a hash, like every other key' },
  publicBaseUrl: { name: 'PUBLIC_BASE_URL', format: formats.BASE_URL,
    description: 'the URL that clients use, for the OpenAPI document; with https, responses carry `Strict-Transport-Security`' },
  stagingBaseUrl: { name: 'STAGING_BASE_URL', format: formats.BASE_URL,
    description: 'the URL of the staging deployment, for the OpenAPI document' },
  contact: { name: 'CONTACT', format: formats.CONTACT,
    description: 'where clients get help, for the OpenAPI document' },
  logLevel: { name: 'LOG_LEVEL', format: formats.oneOf('fatal', 'error', 'warn', 'info', 'debug', 'verbose'), default: 'info',
    description: 'the least important lines that are logged; `debug` includes each request' },
  corsOrigins: { name: 'CORS_ORIGINS', format: formats.ORIGINS, default: '',
    description: 'origins whose pages may call the service from a browser' },
  trustProxy: { name: 'TRUST_PROXY', format: formats.PROXIES,
    description: 'the reverse proxies in front of the service' },
  authFailuresPerMinute: { name: 'AUTH_FAILURES_PER_MINUTE', format: formats.integer(0, 1_000_000), default: '300',
    description: 'invalid keys allowed per client address before 429, in each instance; `0` disables the limit' },
  keyRequestsPerMinute: { name: 'KEY_REQUESTS_PER_MINUTE', format: formats.integer(0, 1_000_000), default: '0',
    description: 'requests allowed per key before 429, in each instance; `0` disables the limit' },
  bodyLimit: { name: 'BODY_LIMIT', format: formats.SIZE, default: '100kb',
    description: 'maximum size of a request body, also after decompression; a `kb` is 1024 bytes' },
  keepAliveTimeout: { name: 'KEEP_ALIVE_TIMEOUT_MS', format: formats.integer(1000, 3_600_000), default: '72000',
    description: 'milliseconds that an idle connection is kept open' },
  shutdownDelay: { name: 'SHUTDOWN_DELAY_MS', format: formats.integer(0, 60_000), default: '0',
    description: 'milliseconds of [shutdown](install.md#graceful-shutdown) in which `/readyz` responds 503 and requests are accepted' },
  production: { name: 'NODE_ENV', format: formats.NODE_ENV, default: 'development',
    description: '`production`: JSON logs, and API keys are never printed at startup' },
}) satisfies Variables;
