/** Whether every percent-encoded character of a text can be decoded. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the URLs of PostgreSQL servers of which one is the primary: libpq separates their hosts by commas
 * (https://www.postgresql.org/docs/18/libpq-connect.html#LIBPQ-CONNSTRING-URIS).
 */
export function splitHosts(url: string): string[] {
  const [, start, hosts, end] = /^(\w+:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s.exec(
    url,
  ) as unknown as string[];
  return hosts!.split(',').map((host) => start! + host + end!);
}

/** Inserts a host into a PostgreSQL URL whose host is a query parameter, because `URL` cannot parse it without one. */
export function withHost(url: string): string {
  return url.replace('@/', '@localhost/');
}
