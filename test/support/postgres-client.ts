import { Client } from 'pg';
import { waitFor } from './wait.js';

/** Opens a connection. When it is lost, its next query fails. */
export async function connectToPostgres(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Runs a statement on a connection of its own. @returns the rows */
export async function queryPostgres(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = await connectToPostgres(url);
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/**
 * Waits until a number of sessions in a database wait for a lock. On a connection of its own, because
 * a transaction sees the sessions of its first query (PostgreSQL, "The Cumulative Statistics System").
 *
 * @param timeout milliseconds
 * @throws {Error} after the timeout
 */
export async function waitUntilBlocked(
  url: string,
  sessions: number,
  timeout: number,
): Promise<void> {
  await waitFor(
    () =>
      queryPostgres(
        url,
        `SELECT "pid" FROM pg_stat_activity
         WHERE "datname" = current_database() AND "wait_event_type" = 'Lock'`,
      ),
    (blocked) => blocked.length === sessions,
    timeout,
  );
}
