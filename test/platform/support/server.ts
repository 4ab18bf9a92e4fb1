import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server that stands for another program, on a free port of the loopback interface. */
export interface TestServer {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly close: () => void;
}

/** Starts a server that handles its requests with a listener. */
export async function listen(listener: RequestListener): Promise<TestServer> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
