import { Client, type Pool } from 'pg';
import type { DataSource } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
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

/** Waits until the pool has noticed that its connections have ended: a statement before would report their end. */
export async function waitUntilDisconnected({ driver }: DataSource): Promise<void> {
  const { master, slaves } = driver as PostgresDriver;
  await waitFor(() =>
    [master as Pool, ...(slaves as Pool[])].every((pool) => pool.totalCount === 0),
  );
}

/**
 * Waits until this many sessions of a database wait for a lock. It opens its own connection, because
 * pg_stat_activity does not change within a transaction.
 *
 * @throws {Error} after a minute
 */
export async function waitUntilBlocked(url: string, sessions: number): Promise<void> {
  const client = await connectToPostgres(url);
  try {
    await waitFor(
      () =>
        client.query(
          `SELECT 1 FROM pg_stat_activity
           WHERE "datname" = current_database() AND "wait_event_type" = 'Lock'`,
        ),
      ({ rowCount }) => rowCount === sessions,
    );
  } finally {
    await client.end();
  }
}
