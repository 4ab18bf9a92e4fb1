import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { CategoriesClient, type Category, type HttpResponse } from './http-client.js';
import { waitFor } from './wait.js';

type ClientKind = 'create' | 'list';

/** The status of a response and the time until it was received. */
interface TimedResponse {
  readonly url: string;
  readonly kind: ClientKind;
  readonly status: number;
  readonly milliseconds: number;
}

interface LoadClient {
  readonly url: string;
  readonly categories: CategoriesClient;
  readonly pause: number;
  readonly kind: ClientKind;
  succeeded: number;
  unavailable: number;
}

/** Milliseconds that a client waits after a 503, which bounds the number of requests. */
const RETRY_DELAY_MS = 50;

/**
 * Runs clients that create and list categories sequentially on one or more instances of the service
 * sharing one initially empty database. Checks every response against everything that any client had
 * observed when the request was sent:
 *
 * - a list contains every acknowledged create and every row that an earlier list contained;
 * - a list is ordered by id, without duplicates and without rows that no client sent;
 * - no id is assigned twice;
 * - an error is a 503, if allowed, with `Retry-After` and the Error body.
 */
export class LoadGenerator {
  /** Rows acknowledged with 201. */
  readonly created: Category[] = [];
  /** Broken guarantees. */
  readonly violations: string[] = [];
  readonly responses: TimedResponse[] = [];
  private readonly clients: LoadClient[] = [];
  private readonly loops: Promise<void>[] = [];
  private readonly agent = new Agent({ keepAlive: true });
  private readonly createdIds = new Set<number>();
  private readonly sentNames = new Set<string>();
  /** The names of rows that must be in the database by id, in the order in which clients observed them. */
  private readonly observed = new Map<number, string>();
  /** Instances that may drop connections. */
  private readonly mayDisconnect = new Set<string>();
  private stopping = false;

  constructor(
    private readonly key: string,
    private readonly options: { allow503?: true } = {},
  ) {}

  /**
   * Starts clients of an instance.
   *
   * @param pause maximum delay in milliseconds before each request, chosen at random; spreads requests
   *   that would otherwise arrive in lockstep with the batched responses
   */
  start(
    url: string,
    { writers, readers, pause = 0 }: { writers: number; readers: number; pause?: number },
  ): void {
    for (let index = 0; index < writers; index++) this.startClient(url, 'create', pause);
    for (let index = 0; index < readers; index++) this.startClient(url, 'list', pause);
  }

  /** Allows an instance to drop connections from now on, which ends its clients. */
  allowDisconnects(url: string): void {
    this.mayDisconnect.add(url);
  }

  /** Ends every client after its pending response. */
  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.loops);
    this.agent.destroy();
  }

  /** Waits until each client has received `count` more successful responses. */
  waitForSuccesses(count: number): Promise<void> {
    return this.waitForProgress('succeeded', count, this.clients);
  }

  /** Waits until each client, or each client of one kind, has received `count` more 503 responses. */
  waitForUnavailable(count: number, kind?: ClientKind): Promise<void> {
    const clients = this.clients.filter((client) => kind === undefined || client.kind === kind);
    return this.waitForProgress('unavailable', count, clients);
  }

  /** Checks a list that was read after the clients stopped. */
  verifyFinalState(rows: readonly Category[]): void {
    this.checkList(rows, this.observed.size);
  }

  private async waitForProgress(
    counter: 'succeeded' | 'unavailable',
    count: number,
    clients: readonly LoadClient[],
  ): Promise<void> {
    const goals = clients
      .filter(({ url }) => !this.mayDisconnect.has(url))
      .map((client) => ({ client, goal: client[counter] + count }));
    const findBehind = () => goals.filter(({ client, goal }) => client[counter] < goal);
    await waitFor(
      () => findBehind().map(({ client, goal }) => `${client.kind}: ${client[counter]} of ${goal}`),
      (behind) => behind.length === 0 || this.violations.length > 0,
    );
  }

  private startClient(url: string, kind: ClientKind, pause: number): void {
    const categories = new CategoriesClient(url, this.key, this.agent);
    const client: LoadClient = { url, categories, kind, pause, succeeded: 0, unavailable: 0 };
    this.clients.push(client);
    this.loops.push(this.runClient(client, this.clients.length));
  }

  private async runClient(client: LoadClient, number: number): Promise<void> {
    // Every second client caches its last list and sends conditional requests.
    const cache = number % 2 === 0 ? { etag: '', rows: [] as readonly Category[] } : undefined;
    for (let turn = 0; !this.stopping; turn++) {
      if (client.pause > 0) await delay(Math.random() * client.pause);
      try {
        const status =
          client.kind === 'create'
            ? await this.create(client, `${number}-${turn}`)
            : await this.list(client, cache);
        if (status === 503) {
          client.unavailable++;
          await delay(RETRY_DELAY_MS);
        } else {
          client.succeeded++;
        }
      } catch (error) {
        if (!this.mayDisconnect.has(client.url)) {
          this.violations.push(`A ${client.kind} request got no response: ${String(error)}`);
        }
        return;
      }
    }
  }

  private async create(client: LoadClient, name: string): Promise<number> {
    this.sentNames.add(name);
    const response = await this.measure(client, client.categories.create(name));
    if (response.status !== 201) return this.checkError(client, response);
    const row = response.json<Category>();
    if (!Number.isSafeInteger(row.id) || row.name !== name || Object.keys(row).length !== 2)
      this.violations.push(`Creating ${name} returned ${response.text}`);
    if (this.createdIds.has(row.id)) this.violations.push(`Id ${row.id} was assigned twice`);
    this.createdIds.add(row.id);
    this.created.push(row);
    this.recordObserved(row);
    return response.status;
  }

  private async list(
    client: LoadClient,
    cache: { etag: string; rows: readonly Category[] } | undefined,
  ): Promise<number> {
    const observedBefore = this.observed.size;
    const headers = cache?.etag ? { 'if-none-match': cache.etag } : undefined;
    const response = await this.measure(client, client.categories.list(headers));
    if (response.status !== 200 && response.status !== 304) {
      return this.checkError(client, response);
    }
    const rows = response.status === 304 ? cache!.rows : response.json<Category[]>();
    if (cache !== undefined) Object.assign(cache, { etag: response.headers.etag, rows });
    this.checkList(rows, observedBefore);
    return response.status;
  }

  /** Waits for a response and records the time until it was received. */
  private async measure(
    { url, kind }: LoadClient,
    pending: Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const begin = performance.now();
    const response = await pending;
    const milliseconds = performance.now() - begin;
    this.responses.push({ url, kind, status: response.status, milliseconds });
    return response;
  }

  private checkList(rows: readonly Category[], observedBefore: number): void {
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    let last = 0;
    for (const { id, name } of rows) {
      if (id <= last) this.violations.push(`A list has id ${id} after ${last}`);
      if (!this.sentNames.has(name)) {
        this.violations.push(`A list contains ${name}, which no client sent`);
      }
      last = id;
    }
    if (new Set(names.values()).size !== rows.length) {
      this.violations.push('A list contains a duplicate row');
    }
    for (const [id, name] of [...this.observed].slice(0, observedBefore)) {
      if (names.get(id) !== name) this.violations.push(`A list lacks ${id} (${name})`);
    }
    for (const row of rows) this.recordObserved(row);
  }

  private recordObserved({ id, name }: Category): void {
    const known = this.observed.get(id);
    if (known === undefined) this.observed.set(id, name);
    else if (known !== name) this.violations.push(`Id ${id} belongs to both ${name} and ${known}`);
  }

  private checkError({ kind }: LoadClient, { status, headers, text }: HttpResponse): number {
    const isUnavailable =
      status === 503 &&
      /^[1-9]\d*$/.test(headers['retry-after'] ?? '') &&
      /^\{"code":"SERVICE_UNAVAILABLE","message":"[^"]+","status":503\}$/.test(text);
    if (!isUnavailable || this.options.allow503 !== true) {
      this.violations.push(
        `A ${kind} request got ${status}, Retry-After ${headers['retry-after']}: ${text}`,
      );
    }
    return status;
  }
}
