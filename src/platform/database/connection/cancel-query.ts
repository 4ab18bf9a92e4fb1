import { once } from 'node:events';
import { connect } from 'node:net';
import type { Client } from 'pg';
import { CANCEL_TIMEOUT_MS } from './timeouts.js';

/** The code of a message that cancels a query instead of starting a session. */
const CANCEL_REQUEST = 80_877_102;

/** A client with what identifies its session to the server; pg does not declare it. */
export type PgClient = Client & { readonly processID: number; readonly secretKey: number };

/**
 * Asks the server, or PgBouncer, on another connection to cancel the query of a client: without it, the server would
 * continue the query, and hold its locks
 * (https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS).
 */
export async function cancelQuery({ host, port, processID, secretKey }: PgClient): Promise<void> {
  const request = Buffer.alloc(16);
  [request.length, CANCEL_REQUEST, processID, secretKey].forEach((value, index) =>
    request.writeInt32BE(value, index * 4),
  );
  const address = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  const socket = connect({ ...address, signal: AbortSignal.timeout(CANCEL_TIMEOUT_MS) });
  socket.resume().write(request);
  // The server closes it.
  await once(socket, 'close').catch(() => undefined);
}
