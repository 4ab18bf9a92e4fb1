import { existsSync, readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import type { Format } from './formats.js';
import { splitHosts, withHost } from './uri.js';
import { declareVariables, type Variable, type Variables } from './environment-variables.js';
import type { Product } from './product.js';

/** The injection token of the {@link Config}. */
export const CONFIG = Symbol('CONFIG');

type Value<V> = V extends { readonly format: Format<infer T> }
  ? V extends { readonly default: string }
    ? T
    : T | undefined
  : never;

type Values<Declared> = { readonly [P in keyof Declared]: Value<Declared[P]> };

/**
 * The configuration of a running service: read at startup, validated and frozen. A feature adds the type of the variables
 * that it declares: `Config<typeof variables>`.
 */
export type Config<Declared extends object = object> = Values<ReturnType<typeof declareVariables>> &
  Values<Declared> & { readonly product: Product };

/** The configuration is invalid. `issues` names each variable and its problem, never its value. */
export class ConfigError extends Error {
  constructor(readonly issues: readonly string[]) {
    super(`Invalid configuration:\n${issues.map((issue) => `  - ${issue}`).join('\n')}`);
    this.name = 'ConfigError';
  }
}

/**
 * Adds the variables of a `.env` file in the working directory, if there is one, that are not set yet.
 *
 * @throws {ConfigError} if the file is not in UTF-8
 */
export function loadEnvFile(): void {
  if (!existsSync('.env')) return;
  const content = readText('.env');
  if (content === undefined) throw new ConfigError(['.env must be encoded in UTF-8']);
  for (const [name, value] of Object.entries(parseEnv(content))) process.env[name] ??= value;
}

/** Returns the text of a file, without the byte order mark of Windows editors; undefined if it is not in UTF-8. */
function readText(file: string): string | undefined {
  const text = readFileSync(file, 'utf8').replace(/^\ufeff/, '');
  // UTF-16 has NUL in each name, and bytes that are invalid become U+FFFD.
  return /[\0\ufffd]/.test(text) ? undefined : text;
}

/** Whether `NODE_ENV` is `production`, before the rest of the environment is validated. */
export const isProduction = (): boolean => process.env['NODE_ENV'] === 'production';

/**
 * Reads and validates the environment. An empty variable counts as unset.
 *
 * @param product what `src/product.ts` declares, which becomes part of the configuration
 * @param features the variables of each feature
 * @throws {ConfigError} with every problem at once, by variable name
 * @throws {TypeError} if two variables have the same name or property
 */
export function loadConfig(
  product: Product,
  environment: NodeJS.ProcessEnv = process.env,
  features: readonly Variables[] = [],
): Config {
  const issues: string[] = [];
  const values = collectVariables(product, features).map(([property, variable]) => {
    const { name, format } = variable;
    const isInFile = variable.secret && environment[`${name}_FILE`];
    const source = isInFile ? `The content of ${name}_FILE` : name;
    const text = isInFile
      ? readSecret(name, environment, issues)
      : environment[name] || variable.default;
    if (text === undefined) return [property, undefined];
    const value = parse(format, text);
    // `URL` ignores some control characters, such as a line break at the end.
    if (/\p{Cc}/u.test(text)) issues.push(`${source} must not contain control characters`);
    else if (value === undefined) issues.push(`${source} must be ${format.expected}`);
    return [property, Object.freeze(value)];
  });
  const config = Object.freeze({ ...Object.fromEntries(values), product } as Config);
  if (config.metricsPort && config.metricsPort === config.port)
    issues.push('METRICS_PORT must differ from PORT');
  if (issues.length > 0) throw new ConfigError(issues);
  return config;
}

/** Parses a text. A format that throws counts as undefined: the error, such as that of `new URL`, may contain a secret. */
function parse(format: Format<unknown>, text: string): unknown {
  try {
    return format.parse(text);
  } catch {
    return undefined;
  }
}

/** @throws {TypeError} if two variables have the same name or property */
function collectVariables(product: Product, features: readonly Variables[]): [string, Variable][] {
  const declared: Variables[] = [declareVariables(product), ...features];
  const variables = declared.flatMap((each) => Object.entries(each));
  const names = ['product', ...variables.flatMap(([property, { name }]) => [property, name])];
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined)
    throw new TypeError(`The variable ${repeated} is declared twice: give one another name.`);
  return variables;
}

/** Reads a secret from the file that `<name>_FILE` names. Adds an issue if that fails. */
function readSecret(
  name: string,
  environment: NodeJS.ProcessEnv,
  issues: string[],
): string | undefined {
  const fileName = `${name}_FILE`;
  if (environment[name]) {
    issues.push(`${name} and ${fileName} must not both be set`);
    return undefined;
  }
  try {
    const content = readText(environment[fileName]!)?.replace(/\r?\n$/, '');
    if (content) return content;
    const expected = content === undefined ? 'encoded in UTF-8' : 'that is not empty';
    issues.push(`${fileName} must name a file ${expected}`);
  } catch (error) {
    // The message of the error contains the value, which may be the secret itself.
    issues.push(`${fileName} must name a readable file (${(error as NodeJS.ErrnoException).code})`);
  }
  return undefined;
}

/**
 * Returns the configuration for the log, without the product and the secrets. The URL of a PostgreSQL database is included
 * without user and password.
 */
export function redactConfig(config: Config, features: readonly Variables[]): Partial<Config> {
  const { product, database } = config;
  const secrets = collectVariables(product, features).filter(([, { secret }]) => secret);
  const hidden = Object.fromEntries(secrets.map(([property]) => [property, undefined]));
  const redacted = { ...config, ...hidden, product: undefined };
  if (database.type === 'sqlite') return { ...redacted, database };
  const urls = splitHosts(database.url).map((url) => new URL(withHost(url)));
  const url = `postgres://${urls.map(({ host }) => host).join(',')}${urls[0]!.pathname}`;
  return { ...redacted, database: { ...database, url } };
}
