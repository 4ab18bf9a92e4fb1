import { createRequire } from 'node:module';
import type { Client, ClientConfig } from 'pg';

/** What the pool, which uses callbacks, passes to `connect`. */
type OnConnect = (error: Error | null) => void;

/**
 * Returns a class of clients of pg that connect to the primary among servers: each to the server that was it last, and after
 * a failure, the next client to the next server.
 *
 * @param isPrimary a condition that fails on a server in recovery
 */
export function createPrimaryClient(urls: readonly string[], isPrimary: string) {
  let current = 0;
  // A static import would load the driver on SQLite, too.
  const pg = createRequire(import.meta.url)('pg') as { readonly Client: typeof Client };
  return class PrimaryClient extends pg.Client {
    static readonly servers = urls.length;
    /** Whether the wait of a commit for the synchronous standbys was cancelled: the server reports it as a success. */
    isUnconfirmed = false;
    private readonly index = current;

    constructor(config: ClientConfig) {
      super({ ...config, connectionString: urls[current]! });
      // Between the listeners of the pool and of a query runner, an error would end the process. The next statement fails.
      this.on('error', () => undefined);
      // The message is localized, and the routine of the server is not.
      this.on('notice', ({ routine }) => {
        this.isUnconfirmed ||= routine === 'SyncRepWaitForLSN';
      });
    }

    /** @param onConnect called once the client is connected to a primary, or with an error */
    override connect(onConnect?: unknown): any {
      const fail = (error: Error): void => {
        // If clients fail at the same time, only the first one moves on to the next server.
        if (this.index === current) current = (current + 1) % urls.length;
        (onConnect as OnConnect)(error);
      };
      super.connect((connectError: Error | null) => {
        if (connectError) return fail(connectError);
        return this.query(`SELECT 1 WHERE ${isPrimary}`, (error: Error | null) => {
          if (!error) return (onConnect as OnConnect)(null);
          void this.end();
          return fail(error);
        });
      });
    }
  };
}
