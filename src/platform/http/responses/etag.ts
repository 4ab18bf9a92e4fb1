/** Returns the strong ETag of the version of a row. */
export function toVersionEtag(version: number): string {
  return `"${version}"`;
}

/** Evaluates If-None-Match (RFC 9110, section 13.1.2): a list of ETags, compared weakly, or `*`. */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return (
    ifNoneMatch === etag ||
    ifNoneMatch
      .split(',')
      .some((item) => item.trim() === '*' || item.trim().replace(/^W\//, '') === etag)
  );
}
