/** How long to wait for a connection to PostgreSQL, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** How long a query of a request may take on PostgreSQL before it is cancelled, in milliseconds. */
export const QUERY_TIMEOUT_MS = 2_000;
