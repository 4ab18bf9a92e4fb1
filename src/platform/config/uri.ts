/** Whether every percent-encoded character of a text can be decoded. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Inserts a host into the URL of a PostgreSQL server that names it in a parameter, so that `URL` can parse it. */
export function withHost(url: string): string {
  return url.replace('@/', '@localhost/');
}
