import { isIP } from 'node:net';
import { isMistyped } from './key-format.js';
import { isDecodable, splitHosts, withHost } from './uri.js';

/** The texts that a variable may have, and their values. */
export interface Format<T> {
  /** Completes a sentence that starts with "must be", for errors and the documentation. */
  readonly expected: string;
  /** Converts the text; undefined if it is invalid. */
  readonly parse: (text: string) => T | undefined;
}

/** An integer without a sign, of at most nine digits. */
export const integer = (min: number, max: number): Format<number> => ({
  expected: `an integer from ${min} to ${max}`,
  parse(text) {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
    return value >= min && value <= max ? value : undefined;
  },
});

export const oneOf = <T extends string>(...values: readonly T[]): Format<T> => ({
  expected: `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`,
  parse: (text) => values.find((value) => value === text),
});

/** Whether the environment is production. Express, Nest and libraries know these three names. */
export const NODE_ENV: Format<boolean> = {
  expected: 'production, development or test',
  // A misspelled `Production` would print API keys.
  parse: (name) =>
    /^(production|development|test)$/.test(name) ? name === 'production' : undefined,
};

/** A text that passes a check. Its value is the text itself. */
export const string = (expected: string, isValid: (text: string) => boolean): Format<string> => ({
  expected,
  parse: (text) => (isValid(text) ? text : undefined),
});

export const HOST = string('an address or a host name', (host) => /^\S+$/.test(host));

/** A bearer token (RFC 6750, section 2.1) that `ApiKeyGuard` can accept. */
export const apiKey = (prefixes: readonly string[]): Format<string> =>
  string(
    `32 to 256 characters of A-Z, a-z, 0-9 and -._~+/, with = at the end only; ${prefixes.map((prefix) => `${prefix}_`).join(' or ')} and 49 letters or digits must end in the checksum of a generated key`,
    (key) => /^(?=.{32,256}$)[A-Za-z0-9\-._~+/]+=*$/.test(key) && !isMistyped(key, prefixes),
  );

/** A URL that may be published: it ends in the version and contains no credentials. */
export const BASE_URL = string('an http or https URL whose path ends in /v1', (url) => {
  if (!isHttpUrl(url)) return false;
  const { pathname, search, hash, username, password } = new URL(url);
  return pathname.endsWith('/v1') && search + hash + username + password === '';
});

/** How clients reach the operator. OpenAPI documents have different properties for URLs and email addresses. */
export const CONTACT: Format<{ readonly url: string } | { readonly email: string }> = {
  expected: 'an http or https URL, or an email address',
  parse(contact) {
    if (isHttpUrl(contact)) return { url: contact };
    return /^[^\s@:]+@[^\s@:]+$/.test(contact) ? { email: contact } : undefined;
  },
};

export const DATABASE_URL: Format<
  | { readonly type: 'sqlite'; readonly file: string }
  | { readonly type: 'postgres'; readonly url: string }
> = {
  expected:
    'sqlite:<file> or postgres://<user>:<password>@<host>:<port>/<database>, with special characters of the password percent-encoded, such as %23 for #, and several servers as <host>:<port>,<host>:<port>, without target_session_attrs other than read-write',
  parse(url) {
    if (url.startsWith('sqlite:')) {
      // better-sqlite3 trims the name of the file, but the checks of the file do not.
      const file = url.slice('sqlite:'.length).trim();
      if (!/^(?!:memory:|\/\/(?!\/))./.test(file)) return undefined;
      return { type: 'sqlite', file: file.replace(/^\/\/(?=\/)/, '') };
    }
    return isPostgresUrl(url) ? { type: 'postgres', url } : undefined;
  },
};

export const ORIGINS: Format<readonly string[]> = {
  expected: 'origins like https://app.example, without patterns, separated by commas',
  parse(list) {
    const origins = splitList(list);
    return origins.every(isOrigin) ? origins : undefined;
  },
};

/** Express's `trust proxy`. */
export const PROXIES: Format<number | string> = {
  expected: 'a number of proxies, or addresses and subnets separated by commas',
  parse(proxies) {
    if (/^\d{1,2}$/.test(proxies)) return Number(proxies);
    const list = splitList(proxies);
    return list.length > 0 && list.every(isProxy) ? list.join(',') : undefined;
  },
};

/** A size in bytes, at most 100 MB, because bodies are held in memory. */
export const SIZE: Format<number> = {
  expected: 'a size of at most 100mb, like 100kb or 1mb',
  parse(size) {
    const [, amount, unit = 'b'] = /^([1-9]\d{0,8})(b|kb|mb)?$/i.exec(size) ?? [];
    const units: Record<string, number> = { b: 1, kb: 1024, mb: 1024 ** 2 };
    const bytes = Number(amount) * units[unit.toLowerCase()]!;
    return bytes <= 100 * 1024 ** 2 ? bytes : undefined;
  },
};

const isOrigin = (url: string): boolean =>
  isHttpUrl(url) && new URL(url).origin === url && !url.includes('*');

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && ['http:', 'https:'].includes(new URL(url).protocol);
}

/** Whether a URL names a PostgreSQL server. An unencoded `#`, `/` or `%` in the password would end it early. */
function isPostgresUrl(url: string): boolean {
  if (!/^postgres(ql)?:\/\/./.test(url) || url.includes('#')) return false;
  const servers = splitHosts(url);
  const urls = servers.length === 1 ? servers.map(withHost) : servers;
  if (!urls.every((each) => URL.canParse(each))) return false;
  const { searchParams } = new URL(urls[0]!);
  // The service writes, and pg would take several hosts of a parameter for the name of one, and the first of several ports.
  const session = searchParams.get('target_session_attrs') ?? 'read-write';
  const hasLists = ['host', 'port'].some((name) => searchParams.get(name)?.includes(','));
  return session === 'read-write' && !hasLists && isDecodable(url);
}

/** Whether Express accepts the text for `trust proxy`: an address, a subnet or the name of a range. */
function isProxy(proxy: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(proxy)) return true;
  const [, address = '', prefix = '1'] = /^([^/]+)(?:\/([1-9]\d{0,2}))?$/.exec(proxy) ?? [];
  return isIP(address) !== 0 && Number(prefix) <= (isIP(address) === 4 ? 32 : 128);
}

/** Splits a comma-separated list, ignoring white space and empty items. */
function splitList(list: string): string[] {
  const items = list.split(',').map((item) => item.trim());
  return items.filter((item) => item !== '');
}
