import { Server as TcpServer } from 'node:net';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { isIdle } from './connections.js';
import type { HttpServer } from './http-server.js';

/**
 * Closes an HTTP server without losing a request: it refuses new connections after a delay, responds
 * with `Connection: close` to requests in flight and to those that arrive within the grace period, then
 * closes idle connections. After the shutdown timeout it closes all.
 *
 * @param shutdownDelay milliseconds until new connections are refused
 */
export async function closeGracefully(
  { server, connections, timeouts }: HttpServer,
  shutdownDelay: number,
): Promise<void> {
  if (!server.listening) return;
  await delay(shutdownDelay);
  const deadline = performance.now() + timeouts.shutdown;
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
  const drainDeadline = performance.now() + timeouts.drainGracePeriod;
  while (connections.size > 0 && performance.now() < deadline) {
    await delay(20);
    // Timers run before sockets are read. A request may have arrived while the event loop was blocked, by
    // a slow commit for example: it must be read before its connection counts as idle.
    await setImmediate();
    if (performance.now() < drainDeadline) continue;
    for (const connection of connections) if (isIdle(connection)) connection.destroy();
  }
  for (const connection of connections) connection.destroy();
  await closed;
}
