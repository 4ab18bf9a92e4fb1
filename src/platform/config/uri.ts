/** Whether every percent-encoded character of a text can be decoded. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Inserts a host into a PostgreSQL URL whose host is a query parameter, because `URL` cannot parse it without one. */
export function withHost(url: string): string {
  return url.replace('@/', '@localhost/');
}
