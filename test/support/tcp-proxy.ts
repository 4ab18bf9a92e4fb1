import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and a server, and can play a network that loses connections. */
export class TcpProxy {
  private readonly open = new Set<Socket>();
  private forwarding: [Socket, Socket][] = [];

  private constructor(private readonly server: Server) {}

  /**
   * Listens on a free port of the loopback interface.
   *
   * @param target the address that connections are made to
   */
  static async listen(target: { host: string; port: number }): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on('connection', (near) => proxy.forward(near, connect(target)));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** From now on, nothing comes through the connections that are open, nor do they end. New ones work. */
  hang(): void {
    for (const [near, far] of this.forwarding) {
      near.unpipe(far).removeAllListeners('close').pause();
      far.unpipe(near).removeAllListeners('close').pause();
    }
    this.forwarding = [];
  }

  async close(): Promise<void> {
    this.server.close();
    for (const socket of this.open) socket.destroy();
    await once(this.server, 'close');
  }

  private forward(near: Socket, far: Socket): void {
    this.forwarding.push([near, far]);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.open.add(socket);
      socket
        .on('error', () => undefined)
        .on('close', () => other.destroy())
        .pipe(other);
    }
  }
}
