import { mkdtempSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { renderDocs } from '../../../scripts/docs-tables.js';
import {
  type Config,
  ConfigError,
  loadConfig,
  loadEnvFile,
  redactConfig,
} from '../../../src/platform/config/config.js';
import {
  declareVariables,
  type Variable,
  type Variables,
} from '../../../src/platform/config/environment-variables.js';
import { integer, oneOf, string } from '../../../src/platform/config/formats.js';
import type { Product } from '../../../src/platform/config/product.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { SERVICE_FEATURES } from '../support/fixture.js';

/** Any product, whatever src/product.ts has. */
const PRODUCT: Product = {
  name: 'shop',
  title: 'Shop',
  description: 'Sells things.',
  version: '1.0.0',
  keyPrefixes: ['shop', 'pet'],
};
/** Part of invalid values: no message may contain it. */
const SECRET = 'SECRET7f3a';
const NAMES = Object.values<Variable>(declareVariables(PRODUCT)).map(({ name }) => name);

function getConfigError(
  env: NodeJS.ProcessEnv,
  own: readonly Variables[] = [],
): ConfigError | undefined {
  try {
    loadConfig(PRODUCT, env, own);
    return undefined;
  } catch (error) {
    return error as ConfigError;
  }
}

const sqlite = (file: string) => ({ database: { type: 'sqlite', file } }) as const;
const postgres = (url: string) => ({ database: { type: 'postgres', url } }) as const;

describe('loadConfig', () => {
  it('returns a frozen object, and treats an empty variable as unset', () => {
    expect(Object.isFrozen(loadConfig(PRODUCT, {}))).toBe(true);
    expect(loadConfig(PRODUCT, Object.fromEntries(NAMES.map((name) => [name, ''])))).toEqual(
      loadConfig(PRODUCT, {}),
    );
  });

  const generated = `pet_${'k'.repeat(43)}2g6vvu`; // with its checksum
  const key = 'abcXYZ0189-._~+/abcXYZ0189-._~+/==';
  const url = 'postgres://user:pass%23@host:5432/db';
  const several = 'postgres://u:p@a:1,[::1]:2,%2Frun%2Fpg/db?target_session_attrs=read-write';

  it.each<[string, string, Partial<Config>]>([
    ['NODE_ENV', 'production', { production: true }],
    ['NODE_ENV', 'development', { production: false }],
    ['PORT', '65535', { port: 65_535 }],
    ['DATABASE_URL', 'sqlite:///var/pets.db', sqlite('/var/pets.db')],
    ['DATABASE_URL', 'sqlite: a b%20.db ', sqlite('a b%20.db')],
    ['DATABASE_URL', url, postgres(url)],
    ['DATABASE_URL', several, postgres(several)],
    ['DATABASE_URL', 'postgres://u@/db?host=/run/pg', postgres('postgres://u@/db?host=/run/pg')],
    ['DATABASE_POOL_SIZE', '1000', { databasePoolSize: 1_000 }],
    ['MIGRATIONS', 'off', { migrations: 'off' }],
    ['BOOTSTRAP_API_KEY', key, { bootstrapApiKey: key }],
    ['BOOTSTRAP_API_KEY', generated, { bootstrapApiKey: generated }],
    ['PUBLIC_BASE_URL', 'http://a:81/b/v1', { publicBaseUrl: 'http://a:81/b/v1' }],
    ['STAGING_BASE_URL', 'https://s.example/v1', { stagingBaseUrl: 'https://s.example/v1' }],
    ['CONTACT', 'https://a.example/help', { contact: { url: 'https://a.example/help' } }],
    ['CONTACT', 'help@a.example', { contact: { email: 'help@a.example' } }],
    ['LOG_LEVEL', 'verbose', { logLevel: 'verbose' }],
    ['CORS_ORIGINS', 'https://a.b, http://c:81 ,', { corsOrigins: ['https://a.b', 'http://c:81'] }],
    ['TRUST_PROXY', 'loopback, 10.0.0.0/8,', { trustProxy: 'loopback,10.0.0.0/8' }],
    ['AUTH_FAILURES_PER_MINUTE', '1000000', { authFailuresPerMinute: 1_000_000 }],
    ['KEY_REQUESTS_PER_MINUTE', '1000000', { keyRequestsPerMinute: 1_000_000 }],
    ['BODY_LIMIT', '100mb', { bodyLimit: 104_857_600 }],
    ['KEEP_ALIVE_TIMEOUT_MS', '3600000', { keepAliveTimeout: 3_600_000 }],
    ['SHUTDOWN_DELAY_MS', '60000', { shutdownDelay: 60_000 }],
  ])('accepts %s=%s', (name, value, expected) => {
    expect(loadConfig(PRODUCT, { [name]: value })).toEqual({
      ...loadConfig(PRODUCT, {}),
      ...expected,
    });
  });
});

describe('loadConfig with an invalid environment', () => {
  const long = 'k'.repeat(40);
  const ANY_HOST = 'postgres://h/db';
  const numbers = ['3000.5', '-1', '1e3', '0x50', '3000abc', 'NaN', 'Infinity', ' ', '1 0'];
  const origin = 'https://a.example';
  // Credentials and fragments would be published in the OpenAPI document.
  const baseUrls = [
    ...'invalid /v1 a.example/v1 ftp://a.example/v1 https://user:password@a.example/v1'.split(' '),
    ...['', '/v1/', '/v2', '/notv1', '/v1?x=1', '/v1#fragment'].map((path) => origin + path),
  ];

  it.each<[string, string[]]>([
    ['NODE_ENV', ['Production', 'PRODUCTION', 'prod', 'production ', 'staging']],
    ['HOST', ['two words', ' ', 'tab\there']],
    ['PORT', [...numbers, '65536']],
    ['METRICS_PORT', [...numbers, '65536', '3000']],
    ['DATABASE_URL', ['sqlite:', 'sqlite: ', 'sqlite: :memory:', 'sqlite://', 'sqlite://data/a']],
    ['DATABASE_URL', ['data/pets.sqlite', 'mysql://host/db', 'file:a', 'postgres:', 'postgres://']],
    // Special characters in a password.
    ['DATABASE_URL', ['#w', '/w', '100%'].map((end) => `postgres://user:pass${end}@host/db`)],
    ['DATABASE_URL', ['a,', ',b', 'a:x,b', 'a,b:1,'].map((hosts) => `postgres://u:p@${hosts}/db`)],
    ['DATABASE_URL', ['any', 'standby', ''].map((to) => `${ANY_HOST}?target_session_attrs=${to}`)],
    ['DATABASE_URL', ['host=a,b', 'host=a&port=1,2'].map((lists) => `postgres://u@/db?${lists}`)],
    ['DATABASE_URL', [`${ANY_HOST}?host=a,b`]],
    ['DATABASE_POOL_SIZE', [...numbers, '1', '1001']],
    ['MIGRATIONS', ['on', 'AUTO']],
    ['BOOTSTRAP_API_KEY', ['k'.repeat(31), 'k'.repeat(257), '='.repeat(40)]],
    ['BOOTSTRAP_API_KEY', [`${long} ${long}`, `${long}=${long}`, `${long}é`, `${long}\n`]],
    // The guard would reject it as mistyped.
    ['BOOTSTRAP_API_KEY', [`pet_${'k'.repeat(49)}`]],
    ['PUBLIC_BASE_URL', baseUrls],
    ['STAGING_BASE_URL', baseUrls],
    ['CONTACT', ['help', 'mailto:help@a.example', 'a@b@c', 'help @a.example', 'ftp://a.example']],
    ['LOG_LEVEL', ['trace', 'loud', 'info,warn']],
    ['CORS_ORIGINS', ['*', 'https://*.a.example', 'a.example', `${origin}/`, `${origin}/path`]],
    ['CORS_ORIGINS', ['null', 'ftp://a.example', `${origin},x`]],
    // Express would reject these at startup, with the value in its message.
    ['TRUST_PROXY', ['two words', 'true', 'proxy.example', '10.0.0.0/99', '::1,x', '-1', ',']],
    ['AUTH_FAILURES_PER_MINUTE', [...numbers, '1000001']],
    ['KEY_REQUESTS_PER_MINUTE', [...numbers, '1000001']],
    ['BODY_LIMIT', ['101mb', '104857601', '0', '-1', '1.5mb', '10gb', 'kb', '100 kb', '1e3']],
    ['KEEP_ALIVE_TIMEOUT_MS', [...numbers, '999', '3600001']],
    ['SHUTDOWN_DELAY_MS', [...numbers, '60001']],
  ])('rejects %s with each of %j', (name, values) => {
    for (const value of values) {
      const issues = getConfigError({ [name]: value })?.issues;
      const expected = [expect.stringMatching(new RegExp(`^${name} must .*[a-z]`)) as string];
      expect({ value, issues }).toEqual({ value, issues: expected });
    }
  });

  it.each([
    ['PUBLIC_BASE_URL', `${origin}/v1\n`],
    ['DATABASE_URL', 'postgres://host/db\u0085'],
  ])('rejects %s with a control character: %j', (name, value) => {
    const issues = [`${name} must not contain control characters`];
    expect(getConfigError({ [name]: value })?.issues).toEqual(issues);
  });

  it('reports every invalid variable at once, by name and never with the value', () => {
    // Invalid for every variable.
    const value = `mysql://user:${SECRET} @host`;
    const error = getConfigError(Object.fromEntries(NAMES.map((name) => [name, value])));
    expect(error?.issues.map((issue) => issue.split(' ')[0])).toEqual(NAMES);
    for (const issue of error!.issues) expect(error!.message).toContain(issue);
    expect(`${error?.stack}${JSON.stringify(error)}`).not.toContain(SECRET);
  });
});

describe('loadConfig with secrets in files', () => {
  const directory = mkdtempSync(join(tmpdir(), `petstore-${SECRET}-`));
  afterAll(() => rm(directory, { recursive: true }));

  /** Writes a file, and returns its path. */
  function write(content: string | Buffer): string {
    const file = join(directory, 'secret');
    writeFileSync(file, content);
    return file;
  }

  it.each(['', '\n', '\r\n'])('accepts _FILE, whose content may end in %j', (end) => {
    const url = 'postgres://u:p@host/db';
    expect(loadConfig(PRODUCT, { DATABASE_URL_FILE: write(url + end) })).toMatchObject(
      postgres(url),
    );
    const bootstrapApiKey = 'k'.repeat(40);
    const env = { BOOTSTRAP_API_KEY_FILE: write(bootstrapApiKey + end), BOOTSTRAP_API_KEY: '' };
    expect(loadConfig(PRODUCT, env)).toMatchObject({ bootstrapApiKey });
  });

  it.each<[string, () => NodeJS.ProcessEnv]>([
    [
      'BOOTSTRAP_API_KEY and BOOTSTRAP_API_KEY_FILE must not both be set',
      () => ({
        BOOTSTRAP_API_KEY_FILE: write('k'.repeat(40)),
        BOOTSTRAP_API_KEY: SECRET.repeat(4),
      }),
    ],
    [
      'DATABASE_URL_FILE must name a readable file (ENOENT)',
      // The secret itself, by mistake.
      () => ({ DATABASE_URL_FILE: `postgres://user:${SECRET}@host/db` }),
    ],
    [
      'DATABASE_URL_FILE must name a file that is not empty',
      () => ({ DATABASE_URL_FILE: write('\n') }),
    ],
    [
      'The content of DATABASE_URL_FILE must be sqlite:',
      () => ({ DATABASE_URL_FILE: write(SECRET) }),
    ],
    [
      'The content of BOOTSTRAP_API_KEY_FILE must not contain control characters',
      () => ({ BOOTSTRAP_API_KEY_FILE: write(`${SECRET.repeat(4)}\n\n`) }),
    ],
  ])('reports without the value: %s', (issue, getEnvironment) => {
    const error = getConfigError({ ...getEnvironment(), PORT: 'many' });
    const other = expect.stringContaining('PORT must be') as string;
    expect(error?.issues).toEqual([other, expect.stringContaining(issue)]);
    expect(`${error?.stack}${JSON.stringify(error)}`).not.toContain(SECRET);
  });
});

describe('loadConfig with the variables of features', () => {
  const variables = {
    webhookSecret: {
      name: 'WEBHOOK_SECRET',
      format: string('at least 16 characters', (text) => text.length >= 16),
      secret: true,
      description: 'signs the webhooks',
    },
    webhookTimeout: {
      name: 'WEBHOOK_TIMEOUT_MS',
      format: integer(100, 60_000),
      default: '5000',
      description: 'milliseconds that a receiver has',
    },
  } satisfies Variables;
  const others = {
    mode: { name: 'MODE', format: oneOf('a', 'b'), default: 'a', description: 'a mode' },
  } satisfies Variables;

  it('validates them with all others, and reads secrets from files', () => {
    const own = [variables, others];
    expect(loadConfig(PRODUCT, {}, own)).toEqual({
      ...loadConfig(PRODUCT, {}),
      webhookSecret: undefined,
      webhookTimeout: 5000,
      mode: 'a',
    });
    const env = { PORT: SECRET, WEBHOOK_SECRET_FILE: SECRET, WEBHOOK_TIMEOUT_MS: SECRET, MODE: '' };
    expect(getConfigError(env, own)?.issues).toEqual([
      'PORT must be an integer from 0 to 65535',
      'WEBHOOK_SECRET_FILE must name a readable file (ENOENT)',
      'WEBHOOK_TIMEOUT_MS must be an integer from 100 to 60000',
    ]);
    expect(getConfigError({ WEBHOOK_SECRET: SECRET }, own)?.issues).toEqual([
      'WEBHOOK_SECRET must be at least 16 characters',
    ]);
  });

  it.each([
    ['check', string('an https URL', (text) => new URL(text).protocol === 'https:')],
    ['format', { expected: 'an https URL', parse: (text: string) => new URL(text).origin }],
  ])('reports a text that makes the %s throw like any other', (_what, format) => {
    const own = { url: { name: 'WEBHOOK_URL', format, description: 'where webhooks go' } };
    expect(getConfigError({ WEBHOOK_URL: SECRET, PORT: SECRET }, [own])?.issues).toEqual([
      'PORT must be an integer from 0 to 65535',
      'WEBHOOK_URL must be an https URL',
    ]);
  });

  it.each<[string, Variables]>([
    ['WEBHOOK_SECRET', { other: variables.webhookSecret }],
    ['webhookSecret', { webhookSecret: others.mode }],
    ['PORT', { other: { ...others.mode, name: 'PORT' } }],
    ['port', { port: others.mode }],
    ['product', { product: others.mode }],
  ])('fails if another one has the same name or property: %s', (name, other) => {
    expect(() => loadConfig(PRODUCT, {}, [variables, other])).toThrow(
      `The variable ${name} is declared twice: give one another name.`,
    );
  });

  it('leaves their secrets out of the log, and documents them', async () => {
    const WEBHOOK_SECRET = SECRET.repeat(2);
    const config = loadConfig(PRODUCT, { WEBHOOK_SECRET }, [variables]);
    const text = JSON.stringify(redactConfig(config, [variables]));
    expect(text).toContain('"webhookTimeout":5000');
    expect(text).not.toContain(SECRET);
    @Feature({ tag: { name: 'webhooks', description: 'Webhooks.' }, variables })
    class WebhooksModule {}
    const docs = await renderDocs([WebhooksModule]);
    expect(docs['docs/configuration.md']).toContain(
      '\n| `WEBHOOK_SECRET` or `WEBHOOK_SECRET_FILE` | unset | at least 16 characters | signs the webhooks |\n',
    );
    expect(docs['.env.example']).toContain(
      '\n# WEBHOOK_SECRET=\n# WEBHOOK_SECRET_FILE=\n# WEBHOOK_TIMEOUT_MS=5000\n',
    );
  });
});

describe('redactConfig', () => {
  it.each([
    `postgres://user:${SECRET}@host:5432/db?password=${SECRET}`,
    `postgres://user:${SECRET}@%2Frun%2Fpg:5432/db`,
    `postgres://user:${SECRET}@a:1,b:2/db`,
    `postgres://user:${SECRET}@/db?host=/run/pg`,
  ])('contains no secret: %s', (url) => {
    const config = loadConfig(PRODUCT, { DATABASE_URL: url, BOOTSTRAP_API_KEY: SECRET.repeat(4) });
    const text = JSON.stringify(redactConfig(config, []));
    expect(text).toMatch(/"url":"postgres:\/\/[^"]+\/db"/);
    expect(text).toContain('"port":3000');
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain('user');
  });
});

describe('npm run docs:tables', () => {
  it('changes nothing in the committed files, with the variables of the features', async () => {
    for (const [file, content] of Object.entries(await renderDocs(SERVICE_FEATURES)))
      expect(await readFile(file, 'utf8')).toBe(content);
    expect.hasAssertions();
  });
});

describe('loadEnvFile', () => {
  const { env } = process;
  const cwd = process.cwd();
  const directory = mkdtempSync(join(tmpdir(), 'env-file-'));
  beforeEach(() => {
    process.env = { PORT: '1' };
    process.chdir(directory);
  });
  afterEach(() => {
    process.env = env;
    process.chdir(cwd);
  });
  afterAll(() => rm(directory, { recursive: true }));

  const TEXT = "HOST=a\r\nexport LOG_LEVEL = 'debug' # comment\nPORT=2\n";

  it.each(['', '\ufeff'])(
    'reads a file that begins with %j, which the environment overrides',
    (mark) => {
      writeFileSync('.env', mark + TEXT);
      loadEnvFile();
      expect(process.env).toEqual({ HOST: 'a', LOG_LEVEL: 'debug', PORT: '1' });
    },
  );

  it.each([
    ['UTF-16 with a byte order mark', Buffer.from(`\ufeff${TEXT}`, 'utf16le')],
    ['Windows-1252', Buffer.from(`${TEXT}CONTACT=Zo\u00eb`, 'latin1')],
  ])('rejects a file in %s', (_encoding, bytes) => {
    writeFileSync('.env', bytes);
    expect(loadEnvFile).toThrow(new ConfigError(['.env must be encoded in UTF-8']));
    expect(process.env).toEqual({ PORT: '1' });
  });
});
