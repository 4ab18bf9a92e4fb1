import { readFile } from 'node:fs/promises';
import {
  type Config,
  ConfigError,
  loadConfig,
  redactConfig,
} from '../src/platform/config/config.js';
import { findMisspelledVariables } from '../src/platform/config/environment.js';

/** Part of every invalid value: no message may contain it. */
const SECRET = 'SECRET7f3a';

/** Every variable, with an invalid value that contains `SECRET`. */
const INVALID_ENV = {
  HOST: `two words ${SECRET}`,
  PORT: `3000${SECRET}`,
  METRICS_PORT: SECRET,
  DATABASE_URL: `mysql://user:${SECRET}@host/db`,
  DATABASE_POOL_SIZE: SECRET,
  MIGRATIONS: SECRET,
  BOOTSTRAP_API_KEY: SECRET,
  PUBLIC_BASE_URL: SECRET,
  STAGING_BASE_URL: `https://host/${SECRET}`,
  LOG_LEVEL: SECRET,
  CORS_ORIGINS: `https://app.example,${SECRET}`,
  TRUST_PROXY: `not an address ${SECRET}`,
  AUTH_FAILURES_PER_MINUTE: SECRET,
  KEY_REQUESTS_PER_MINUTE: SECRET,
  BODY_LIMIT: `100${SECRET}`,
  KEEP_ALIVE_TIMEOUT_MS: SECRET,
  SHUTDOWN_DELAY_MS: SECRET,
  NODE_ENV: SECRET,
};
const NAMES = Object.keys(INVALID_ENV);

function getConfigError(env: NodeJS.ProcessEnv): ConfigError {
  try {
    loadConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('The configuration was accepted');
}

describe('loadConfig', () => {
  it('has a default for every variable except secrets', () => {
    expect(loadConfig({})).toEqual({
      production: false,
      host: '127.0.0.1',
      port: 3000,
      metricsPort: undefined,
      database: { type: 'sqlite', file: 'data/petstore.sqlite' },
      databasePoolSize: 10,
      migrations: 'auto',
      bootstrapApiKey: undefined,
      publicBaseUrl: undefined,
      stagingBaseUrl: undefined,
      logLevel: 'info',
      corsOrigins: [],
      trustProxy: undefined,
      authFailuresPerMinute: 300,
      keyRequestsPerMinute: 0,
      bodyLimit: 102_400,
      keepAliveTimeout: 72_000,
      shutdownDelay: 0,
    });
  });

  it('treats an empty variable as unset', () => {
    const empty = Object.fromEntries(NAMES.map((name) => [name, '']));
    expect(loadConfig(empty)).toEqual(loadConfig({}));
  });

  it('ignores unknown variables', () => {
    expect(
      loadConfig({ PATH: '/bin', host: 'lower', npm_config_port: '1', constructor: 'x' }),
    ).toEqual(loadConfig({}));
  });

  it('returns a frozen object', () => {
    for (const env of [
      {},
      { DATABASE_URL: 'postgres://host/db', CORS_ORIGINS: 'https://a.example' },
    ]) {
      const config = loadConfig(env);
      expect(Object.isFrozen(config)).toBe(true);
      expect(Object.isFrozen(config.database)).toBe(true);
      expect(Object.isFrozen(config.corsOrigins)).toBe(true);
    }
  });

  it.each<[string, string, Partial<Config>]>([
    ['NODE_ENV', 'production', { production: true }],
    ['NODE_ENV', 'development', { production: false }],
    ['HOST', '0.0.0.0', { host: '0.0.0.0' }],
    ['HOST', '::', { host: '::' }],
    ['HOST', 'localhost', { host: 'localhost' }],
    ['PORT', '8080', { port: 8080 }],
    ['PORT', '0', { port: 0 }],
    ['PORT', '65535', { port: 65_535 }],
    ['METRICS_PORT', '9464', { metricsPort: 9_464 }],
    ['METRICS_PORT', '0', { metricsPort: 0 }],
    ['DATABASE_URL', 'sqlite:pets.db', { database: { type: 'sqlite', file: 'pets.db' } }],
    ['DATABASE_URL', 'sqlite:./a/b.db', { database: { type: 'sqlite', file: './a/b.db' } }],
    ['DATABASE_URL', 'sqlite:/var/pets.db', { database: { type: 'sqlite', file: '/var/pets.db' } }],
    [
      'DATABASE_URL',
      'sqlite:///var/pets.db',
      { database: { type: 'sqlite', file: '/var/pets.db' } },
    ],
    ['DATABASE_URL', 'sqlite:a b%20.db', { database: { type: 'sqlite', file: 'a b%20.db' } }],
    ['DATABASE_POOL_SIZE', '1000', { databasePoolSize: 1_000 }],
    ['MIGRATIONS', 'auto', { migrations: 'auto' }],
    ['MIGRATIONS', 'off', { migrations: 'off' }],
    ['BOOTSTRAP_API_KEY', 'k'.repeat(32), { bootstrapApiKey: 'k'.repeat(32) }],
    ['BOOTSTRAP_API_KEY', 'k'.repeat(256), { bootstrapApiKey: 'k'.repeat(256) }],
    [
      'BOOTSTRAP_API_KEY',
      'abcXYZ0189-._~+/abcXYZ0189-._~+/==',
      { bootstrapApiKey: 'abcXYZ0189-._~+/abcXYZ0189-._~+/==' },
    ],
    ['PUBLIC_BASE_URL', 'https://a.example/v1', { publicBaseUrl: 'https://a.example/v1' }],
    ['PUBLIC_BASE_URL', 'http://a:81/b/v1', { publicBaseUrl: 'http://a:81/b/v1' }],
    ['STAGING_BASE_URL', 'https://s.example/v1', { stagingBaseUrl: 'https://s.example/v1' }],
    ['LOG_LEVEL', 'fatal', { logLevel: 'fatal' }],
    ['LOG_LEVEL', 'error', { logLevel: 'error' }],
    ['LOG_LEVEL', 'warn', { logLevel: 'warn' }],
    ['LOG_LEVEL', 'info', { logLevel: 'info' }],
    ['LOG_LEVEL', 'debug', { logLevel: 'debug' }],
    ['LOG_LEVEL', 'verbose', { logLevel: 'verbose' }],
    ['CORS_ORIGINS', 'https://a.example', { corsOrigins: ['https://a.example'] }],
    [
      'CORS_ORIGINS',
      'https://a.example, http://localhost:5173 ,',
      { corsOrigins: ['https://a.example', 'http://localhost:5173'] },
    ],
    ['TRUST_PROXY', '0', { trustProxy: 0 }],
    ['TRUST_PROXY', '2', { trustProxy: 2 }],
    ['TRUST_PROXY', 'loopback', { trustProxy: 'loopback' }],
    ['TRUST_PROXY', '10.0.0.1', { trustProxy: '10.0.0.1' }],
    ['TRUST_PROXY', 'loopback, 10.0.0.0/8,', { trustProxy: 'loopback,10.0.0.0/8' }],
    ['TRUST_PROXY', '::1,fc00::/7', { trustProxy: '::1,fc00::/7' }],
    ['BODY_LIMIT', '512', { bodyLimit: 512 }],
    ['BODY_LIMIT', '512b', { bodyLimit: 512 }],
    ['BODY_LIMIT', '20kb', { bodyLimit: 20_480 }],
    ['BODY_LIMIT', '1MB', { bodyLimit: 1_048_576 }],
    ['KEEP_ALIVE_TIMEOUT_MS', '1000', { keepAliveTimeout: 1_000 }],
    ['KEEP_ALIVE_TIMEOUT_MS', '3600000', { keepAliveTimeout: 3_600_000 }],
    ['SHUTDOWN_DELAY_MS', '0', { shutdownDelay: 0 }],
    ['SHUTDOWN_DELAY_MS', '60000', { shutdownDelay: 60_000 }],
  ])('accepts %s=%s', (name, value, expected) => {
    expect(loadConfig({ [name]: value })).toEqual({ ...loadConfig({}), ...expected });
  });

  it.each(['postgres://user:pass@host:5432/db', 'postgresql://host/db?sslmode=require'])(
    'accepts DATABASE_URL=%s',
    (url) => {
      expect(loadConfig({ DATABASE_URL: url }).database).toEqual({ type: 'postgres', url });
    },
  );
});

describe('loadConfig with an invalid environment', () => {
  const numbers = ['3000.5', '-1', '1e3', '0x50', '3000abc', 'NaN', 'Infinity', ' ', '1 0'];
  it.each<[string, string[]]>([
    ['HOST', ['two words', ' ', 'tab\there']],
    ['PORT', [...numbers, '65536']],
    ['METRICS_PORT', [...numbers, '65536', '3000']],
    [
      'DATABASE_URL',
      [
        'data/petstore.sqlite',
        'sqlite:',
        'sqlite::memory:',
        'sqlite://',
        // Special characters in a password.
        'postgres://user:pass#word@host/db',
        'postgres://user:pass/word@host/db',
        'postgres://user:100%@host/db',
        // Two slashes start an authority, and a file has none.
        'sqlite://data/petstore.sqlite',
        'postgres:',
        'postgres://',
        'mysql://host/db',
        'file:petstore.sqlite',
      ],
    ],
    ['DATABASE_POOL_SIZE', [...numbers, '1', '1001']],
    [
      'BOOTSTRAP_API_KEY',
      [
        'k'.repeat(31),
        'k'.repeat(257),
        `${'k'.repeat(40)} ${'k'.repeat(40)}`,
        `${'k'.repeat(40)}=${'k'.repeat(40)}`,
        `${'k'.repeat(40)}é`,
        `${'k'.repeat(40)}\n`,
        '='.repeat(40),
      ],
    ],
    ...['PUBLIC_BASE_URL', 'STAGING_BASE_URL'].map((name): [string, string[]] => [
      name,
      [
        'invalid',
        '/v1',
        'a.example/v1',
        'ftp://a.example/v1',
        'https://a.example',
        'https://a.example/v1/',
        'https://a.example/v2',
        'https://a.example/notv1',
        'https://a.example/v1?x=1',
        // Both would be published in the OpenAPI document.
        'https://a.example/v1#fragment',
        'https://user:password@a.example/v1',
      ],
    ]),
    ['LOG_LEVEL', ['trace', 'loud', 'info,warn']],
    [
      'CORS_ORIGINS',
      [
        '*',
        'https://*.a.example',
        'a.example',
        'https://a.example/',
        'https://a.example/path',
        'null',
        'ftp://a.example',
      ],
    ],
    [
      'TRUST_PROXY',
      // Express would reject these at startup, with the value in its message.
      ['two words', 'true', 'proxy.example', '300.1.1.1', '10.0.0.0/99', '10.0.0.1,nonsense', '-1'],
    ],
    ['AUTH_FAILURES_PER_MINUTE', [...numbers, '1000001']],
    ['KEY_REQUESTS_PER_MINUTE', [...numbers, '1000001']],
    ['BODY_LIMIT', ['0', '-1', '1.5mb', '10gb', 'kb', 'large', '100 kb', '1e3']],
    ['KEEP_ALIVE_TIMEOUT_MS', [...numbers, '999', '3600001']],
    ['SHUTDOWN_DELAY_MS', [...numbers, '60001']],
    ['NODE_ENV', ['Production', 'PRODUCTION', 'prod', 'production ', 'staging']],
  ])('rejects invalid values of %s', (name, values) => {
    const accepted = values.filter((value) => {
      try {
        loadConfig({ [name]: value });
        return true;
      } catch {
        return false;
      }
    });
    expect(accepted).toEqual([]);
    expect(values.length).toBeGreaterThan(0);
    for (const value of values) {
      const { issues } = getConfigError({ [name]: value });
      expect(issues).toEqual([expect.stringMatching(new RegExp(`^${name} must .*[a-z]`))]);
    }
  });

  it('reports every invalid variable at once, by name and never with the value', () => {
    const error = getConfigError(INVALID_ENV);
    const reportedNames = error.issues.map((issue) => issue.split(' ')[0]);
    expect(new Set(reportedNames)).toEqual(new Set(NAMES));
    expect(reportedNames).toHaveLength(NAMES.length);
    for (const issue of error.issues) expect(error.message).toContain(issue);
    expect(error.message).not.toContain(SECRET);
    expect(`${error.stack}${JSON.stringify(error)}`).not.toContain(SECRET);
  });

  it('reports one issue per variable', () => {
    expect(getConfigError({ PORT: '-1.5', HOST: ' ' }).issues).toHaveLength(2);
  });

  it.each(NAMES)('does not reveal the value of %s', (name) => {
    const error = getConfigError({ [name]: INVALID_ENV[name as keyof typeof INVALID_ENV] });
    expect(error.issues).toHaveLength(1);
    expect(error.message).toContain(name);
    expect(error.message).not.toContain(SECRET);
  });
});

describe('findMisspelledVariables', () => {
  it('finds names that resemble a variable, and the variable', () => {
    const env = {
      TRUST_PROXIES: '1',
      DATABASE_URI: 'x',
      LOG_LEVELS: 'x',
      port: '1',
      BOOTSTRAP_APIKEY: 'x',
    };
    expect(findMisspelledVariables(env)).toEqual([
      { name: 'TRUST_PROXIES', meant: 'TRUST_PROXY' },
      { name: 'DATABASE_URI', meant: 'DATABASE_URL' },
      { name: 'LOG_LEVELS', meant: 'LOG_LEVEL' },
      { name: 'port', meant: 'PORT' },
      { name: 'BOOTSTRAP_APIKEY', meant: 'BOOTSTRAP_API_KEY' },
    ]);
  });

  it('ignores the variables of the service and those of other programs', () => {
    const others = [
      'PATH',
      'HOME',
      'HOSTNAME',
      'LANG',
      'NODE_VERSION',
      'NODE_OPTIONS',
      'POSTGRES_DB',
    ];
    const names = [...NAMES, ...others, 'npm_config_port', 'KUBERNETES_PORT', 'PWD', 'OLDPWD'];
    expect(findMisspelledVariables(Object.fromEntries(names.map((name) => [name, 'x'])))).toEqual(
      [],
    );
  });
});

describe('redactConfig', () => {
  it.each([
    `postgres://user:${SECRET}@host:5432/db?password=${SECRET}`,
    `postgres://user:${SECRET}@%2Frun%2Fpg:5432/db`,
    `postgres://user:${SECRET}@/db?host=/run/pg`,
  ])('contains no secret: %s', (url) => {
    const config = loadConfig({ DATABASE_URL: url, BOOTSTRAP_API_KEY: SECRET.repeat(4) });
    const text = JSON.stringify(redactConfig(config));
    expect(text).toMatch(/"url":"postgres:\/\/[^"]+\/db"/);
    expect(text).toContain('"port":3000');
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain('user');
  });
});

describe('Configuration documentation', () => {
  it.each(['.env.example', 'docs/configuration.md'])('lists every variable in %s', async (file) => {
    const text = await readFile(new URL(`../${file}`, import.meta.url), 'utf8');
    expect(NAMES.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });
});
