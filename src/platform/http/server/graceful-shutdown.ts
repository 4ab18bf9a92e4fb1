import type { Server } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Connections, isIdle } from './connections.js';

/** How long requests that are already on the wire may still arrive, in milliseconds. */
const DRAIN_GRACE_PERIOD_MS = 500;
/** The time from the start of the shutdown until open connections are closed, in milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 8_000;

/**
 * Closes an HTTP server without losing a request: it refuses new connections after a delay, responds
 * with `Connection: close` to requests in flight and to those that arrive within
 * `DRAIN_GRACE_PERIOD_MS`, then closes idle connections. After `SHUTDOWN_TIMEOUT_MS` it closes all.
 *
 * @param shutdownDelay milliseconds until new connections are refused
 */
export async function closeGracefully(
  server: Server,
  connections: Connections,
  shutdownDelay: number,
): Promise<void> {
  const deadline = Date.now() + SHUTDOWN_TIMEOUT_MS;
  if (!server.listening) return;
  await delay(shutdownDelay);
  // `http.Server.close()` and `closeIdleConnections()` are not used because they also close connections
  // whose request is on the wire or whose response is still being written. The inherited `close()` only
  // stops listening.
  const closed = new Promise<void>((resolve) => {
    TcpServer.prototype.close.call(server, () => resolve());
  });
  for (const { latestResponse } of connections) {
    if (latestResponse !== undefined && !latestResponse.headersSent)
      latestResponse.shouldKeepAlive = false;
  }
  const drainDeadline = Date.now() + DRAIN_GRACE_PERIOD_MS;
  while (connections.size > 0 && Date.now() < deadline) {
    await delay(20);
    if (Date.now() < drainDeadline) continue;
    for (const connection of connections) if (isIdle(connection)) connection.destroy();
  }
  for (const connection of connections) connection.destroy();
  await closed;
}
