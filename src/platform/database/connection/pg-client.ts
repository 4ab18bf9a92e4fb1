import { once } from 'node:events';
import { connect } from 'node:net';
import { Client } from 'pg';
import { getDriverErrorCode, READ_ONLY_TRANSACTION } from './driver-errors.js';
import { CANCEL_TIMEOUT_MS, QUERY_TIMEOUT_MS } from './timeouts.js';

/** The code of a message that cancels a query instead of starting a session. */
const CANCEL_REQUEST = 80_877_102;

/**
 * A connection that cancels a query that takes too long. It is closed, and the pool opens another, if the server does
 * not respond to that, either, because the next query would wait for both; and if a query was rejected because the
 * connection is read-only, which it would stay.
 */
export class PetstorePgClient extends Client {
  // What identifies the session to the server; pg declares neither.
  declare private readonly processID: number;
  declare private readonly secretKey: number;

  // The overloads of pg have no common signature.
  override query(...parameters: any[]): any {
    const result: unknown = (super.query as (...all: any[]) => unknown)(...parameters);
    return result instanceof Promise ? this.limit(result) : result;
  }

  /** Cancels the query in progress, and closes the connection, which rolls back its transaction. */
  async abort(): Promise<void> {
    await this.cancelQuery();
    await this.close();
  }

  private async limit<T>(query: Promise<T>): Promise<T> {
    let cancellation: Promise<void> | undefined;
    const timer = setTimeout(() => {
      cancellation = this.cancelQuery();
    }, QUERY_TIMEOUT_MS);
    try {
      return await query;
    } catch (error) {
      const isReadOnly = getDriverErrorCode(error) === READ_ONLY_TRANSACTION;
      if (isReadOnly || (error as Error).message === 'Query read timeout') await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
      // It must not cancel the next query.
      await cancellation;
    }
  }

  /**
   * Asks the server, or PgBouncer, on another connection to cancel the query: for a client that has gone, it would
   * continue the query, and hold its locks
   * (https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS).
   */
  private async cancelQuery(): Promise<void> {
    const request = Buffer.alloc(16);
    [request.length, CANCEL_REQUEST, this.processID, this.secretKey].forEach((value, index) =>
      request.writeInt32BE(value, index * 4),
    );
    const { host, port } = this;
    const address = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
    const socket = connect({ ...address, signal: AbortSignal.timeout(CANCEL_TIMEOUT_MS) });
    socket.resume().write(request);
    // The server closes it.
    await once(socket, 'close').catch(() => undefined);
  }

  /** Closes the connection, and waits until the pool does not offer it any more. */
  private async close(): Promise<void> {
    const { stream } = this.connection;
    if (stream.destroyed) return;
    stream.destroy();
    await once(stream, 'close');
  }
}
