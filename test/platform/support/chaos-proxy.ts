import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that simulates a network that is slow, silently drops packets or loses connections. */
export class ChaosProxy {
  private readonly sockets = new Set<Socket>();
  private stopForwarding: (() => void)[] = [];

  private constructor(
    private readonly server: Server,
    /** The address of the upstream server for new connections. */
    public target: string,
    /** Milliseconds by which data from the upstream server is delayed. */
    public latency: number,
  ) {}

  /**
   * Listens on a free port of the loopback interface.
   *
   * @param url the address of the upstream server
   */
  static async listen(url: string, latency = 0): Promise<ChaosProxy> {
    const server = createServer();
    const proxy = new ChaosProxy(server, url, latency);
    server.on('connection', (client) => {
      const { hostname: host, port } = new URL(proxy.target);
      proxy.forward(client, connect({ host, port: Number(port), noDelay: true }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  /** Replaces the host and port of a URL with those of the proxy. */
  proxiedUrl(url: string): string {
    const { port } = this.server.address() as AddressInfo;
    return Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href;
  }

  /** Drops all further and delayed data of the open connections without closing them. New connections work. */
  blackhole(): void {
    for (const stop of this.stopForwarding) stop();
    this.stopForwarding = [];
  }

  /** Closes the open connections at once. New connections work. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.server.close();
    this.cut();
    await once(this.server, 'close');
  }

  private forward(client: Socket, upstream: Socket): void {
    client.setNoDelay();
    this.pipe(client, upstream, () => 0);
    this.pipe(upstream, client, () => this.latency);
  }

  private pipe(from: Socket, to: Socket, getLatency: () => number): void {
    let stopped = false;
    const pass = (action: () => void): void => {
      if (stopped) return;
      const latency = getLatency();
      if (latency === 0) action();
      else setTimeout(() => stopped || action(), latency);
    };
    this.sockets.add(from);
    this.stopForwarding.push(() => (stopped = true));
    from
      .on('error', () => undefined)
      .on('data', (chunk) => pass(() => to.write(chunk)))
      .on('close', () => pass(() => to.destroy()));
  }
}
