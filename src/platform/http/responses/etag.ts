/** Returns the strong ETag of the version of a row. */
export const toVersionEtag = (version: number): string => `"${version}"`;

/** Evaluates If-None-Match (RFC 9110, section 13.1.2): a list of ETags, compared weakly, or `*`. */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  const etags: string[] = ifNoneMatch.match(/"[^"]*"/g) ?? [];
  return ifNoneMatch.trim() === '*' || etags.includes(etag);
}
