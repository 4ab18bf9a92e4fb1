import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and a server, and can play a network that is slow or loses connections. */
export class ChaosProxy {
  private readonly open = new Set<Socket>();
  private forwarding: (() => void)[] = [];

  private constructor(
    private readonly server: Server,
    private readonly latency: number,
  ) {}

  /**
   * Listens on a free port of the loopback interface.
   *
   * @param url the address of the server
   * @param latency milliseconds by which whatever the server sends comes later
   */
  static async listen(url: string, latency = 0): Promise<ChaosProxy> {
    const { hostname: host, port } = new URL(url);
    const server = createServer();
    const proxy = new ChaosProxy(server, latency);
    server.on('connection', (client) =>
      proxy.forward(client, connect({ host, port: Number(port), noDelay: true })),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  /** The address of the server by way of the proxy. */
  proxiedUrl(url: string): string {
    const { port } = this.server.address() as AddressInfo;
    return Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href;
  }

  /** From now on, nothing comes through the connections that are open, nor do they end. New ones work. */
  blackhole(): void {
    for (const end of this.forwarding) end();
    this.forwarding = [];
  }

  async close(): Promise<void> {
    this.server.close();
    for (const socket of this.open) socket.destroy();
    await once(this.server, 'close');
  }

  private forward(client: Socket, upstream: Socket): void {
    client.setNoDelay();
    this.forwardTo(upstream, client, 0);
    this.forwardTo(client, upstream, this.latency);
  }

  private forwardTo(to: Socket, from: Socket, latency: number): void {
    let hangs = false;
    const pass = (act: () => void): void => {
      if (hangs) return;
      if (latency === 0) act();
      else setTimeout(act, latency);
    };
    this.open.add(from);
    this.forwarding.push(() => (hangs = true));
    from
      .on('error', () => undefined)
      .on('data', (chunk) => pass(() => to.write(chunk)))
      .on('close', () => pass(() => to.destroy()));
  }
}
