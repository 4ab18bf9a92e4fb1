import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { CategoriesClient, type Category, type HttpResponse } from './http-client.js';
import { waitFor } from './wait.js';

type ClientKind = 'create' | 'list';

interface LoadClient {
  readonly url: string;
  readonly kind: ClientKind;
  succeeded: number;
}

/**
 * Runs clients that create and list categories on instances that share an initially empty database, and checks every response:
 * none is an error, and a list has the rows of every earlier list and acknowledged create, in the order of their ids.
 */
export class LoadGenerator {
  /** Rows acknowledged with 201. */
  readonly created: Category[] = [];
  /** Descriptions of broken guarantees. */
  readonly violations: string[] = [];
  private readonly clients: LoadClient[] = [];
  private readonly loops: Promise<void>[] = [];
  private readonly agent = new Agent({ keepAlive: true });
  private readonly sentNames = new Set<string>();
  /** The names of all rows that clients received, by id, in the order in which they received them. */
  private readonly observed = new Map<number, string>();
  /** Instances that shut down. */
  private readonly stopped = new Set<string>();
  private stopping = false;

  constructor(private readonly key: string) {}

  /**
   * Starts clients of an instance.
   *
   * @param pause the maximum of a random delay before each request, in milliseconds, without which requests arrive in step with
   *   the batches of responses
   */
  start(
    url: string,
    { writers, readers, pause = 0 }: { writers: number; readers: number; pause?: number },
  ): void {
    for (let index = 0; index < writers + readers; index++) {
      const kind = index < writers ? 'create' : 'list';
      const client: LoadClient = { url, kind, succeeded: 0 };
      this.clients.push(client);
      this.loops.push(this.runClient(client, this.clients.length, pause));
    }
  }

  /** Allows an instance to refuse connections from now on, which ends its clients. */
  allowShutdown(url: string): void {
    this.stopped.add(url);
  }

  /** Ends every client after its pending response. */
  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.loops);
    this.agent.destroy();
  }

  /** Waits until each client has received `count` more successful responses. */
  async waitForSuccesses(count: number): Promise<void> {
    const goals = this.clients
      .filter(({ url }) => !this.stopped.has(url))
      .map((client) => ({ client, goal: client.succeeded + count }));
    await waitFor(
      () => goals.filter(({ client, goal }) => client.succeeded < goal),
      (behind) => behind.length === 0 || this.violations.length > 0,
    );
  }

  /** Checks a list that was read after the clients stopped. */
  verifyFinalState(rows: readonly Category[]): void {
    this.checkList(rows, this.observed.size);
  }

  private async runClient(client: LoadClient, number: number, pause: number): Promise<void> {
    const categories = new CategoriesClient(client.url, this.key, this.agent);
    for (let turn = 0; !this.stopping; turn++) {
      await delay(Math.random() * pause);
      const observedBefore = this.observed.size;
      const name = `${number}-${turn}`;
      if (client.kind === 'create') this.sentNames.add(name);
      let response: HttpResponse;
      try {
        response = await (client.kind === 'create' ? categories.create(name) : categories.list());
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'ECONNREFUSED' || !this.stopped.has(client.url))
          this.violations.push(`A ${client.kind} request got no response: ${String(error)}`);
        return;
      }
      const { status, text } = response;
      if (status === 201) {
        const row = response.json<Category>();
        if (row.name !== name) this.violations.push(`Creating ${name} returned ${text}`);
        this.created.push(row);
        this.observe(row);
      } else if (status === 200) this.checkList(response.json<Category[]>(), observedBefore);
      else this.violations.push(`A ${client.kind} request got ${status}: ${text}`);
      client.succeeded++;
    }
  }

  private checkList(rows: readonly Category[], observedBefore: number): void {
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    let last = 0;
    for (const { id, name } of rows) {
      if (id <= last) this.violations.push(`A list has id ${id} after ${last}`);
      if (!this.sentNames.has(name))
        this.violations.push(`A list contains ${name}, which no client sent`);
      last = id;
    }
    if (new Set(names.values()).size !== rows.length)
      this.violations.push('A list contains a duplicate row');
    for (const [id, name] of [...this.observed].slice(0, observedBefore))
      if (names.get(id) !== name) this.violations.push(`A list lacks ${id} (${name})`);
    for (const row of rows) this.observe(row);
  }

  private observe({ id, name }: Category): void {
    const known = this.observed.get(id);
    if (known === undefined) this.observed.set(id, name);
    else if (known !== name) this.violations.push(`Id ${id} belongs to both ${name} and ${known}`);
  }
}
