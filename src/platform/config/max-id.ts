/** The highest id that the service assigns: every JSON number up to it is exact (RFC 8259, section 6). */
export const MAX_ID = Number.MAX_SAFE_INTEGER;
