import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpResponse, sendRequest, jsonHeaders } from './http-client.js';
import { waitFor } from './wait.js';

/** A category as these clients create it. */
export interface Row {
  readonly id: number;
  readonly name: string;
}

/** One answer, and how long it took. */
interface Timed {
  readonly url: string;
  readonly kind: 'create' | 'read';
  readonly status: number;
  readonly milliseconds: number;
}

interface LoadClient {
  readonly url: string;
  readonly pause: number;
  readonly kind: 'create' | 'read';
  succeeded: number;
  refused: number;
}

/** Milliseconds that a client waits after a 503: enough to keep what it sends bounded. */
const PAUSE_AFTER_503 = 50;

/**
 * Clients that create and list categories, each one request after the other, on one or more
 * instances of the service with one empty store. Every answer is checked against everything that
 * all clients knew when its request was sent:
 *
 * - a list shows each create that was answered, and each row that another list has shown, before;
 * - it is in id order, shows no row twice, and none that nobody sent;
 * - no id is given twice;
 * - an error is 503, where that is allowed, with `Retry-After` and the Error body.
 */
export class LoadGenerator {
  /** What was answered 201. */
  readonly created: Row[] = [];
  /** What must not be. */
  readonly violations: string[] = [];
  readonly answers: Timed[] = [];
  private readonly clients: LoadClient[] = [];
  private readonly loops: Promise<void>[] = [];
  private readonly agent = new Agent({ keepAlive: true });
  private readonly createdIds = new Set<number>();
  /** Every name that was sent. */
  private readonly sent = new Set<string>();
  /** What is stored for sure, in the order in which the clients came to know of it. */
  private readonly known: Row[] = [];
  private readonly knownNames = new Map<number, string>();
  /** Instances that may break off connections. */
  private readonly doomed = new Set<string>();
  private stopping = false;

  constructor(
    private readonly key: string,
    private readonly options: { allow503?: true } = {},
  ) {}

  /**
   * Starts clients of an instance.
   *
   * @param pause milliseconds that a client waits at most before each request: so many clients come
   *   at many different moments, rather than together with those that were answered together
   */
  start(
    url: string,
    { writers, readers, pause = 0 }: { writers: number; readers: number; pause?: number },
  ): void {
    for (let index = 0; index < writers; index++) this.run(url, 'create', pause);
    for (let index = 0; index < readers; index++) this.run(url, 'read', pause);
  }

  /** From now on, this instance may break off connections, which ends their clients. */
  allowDisconnects(url: string): void {
    this.doomed.add(url);
  }

  /** Ends every client after the answer that it waits for. */
  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.loops);
    this.agent.destroy();
  }

  /** Waits until each client has got so many more answers of success. */
  waitForSuccesses(count: number, timeout: number): Promise<void> {
    return this.progress('succeeded', count, timeout, () => true);
  }

  /** Waits until each client of a kind has got so many more 503. */
  waitForUnavailable(count: number, timeout: number, kind?: 'create' | 'read'): Promise<void> {
    return this.progress(
      'refused',
      count,
      timeout,
      (client) => kind === undefined || client.kind === kind,
    );
  }

  /** Checks that a list, read after the clients have stopped, shows exactly what it must and may. */
  verifyFinalState(rows: readonly Row[]): void {
    this.check(rows, this.known.length);
  }

  private async progress(
    count: 'succeeded' | 'refused',
    more: number,
    timeout: number,
    counts: (client: LoadClient) => boolean,
  ): Promise<void> {
    const goals = this.clients
      .filter((client) => counts(client) && !this.doomed.has(client.url))
      .map((client) => ({ client, goal: client[count] + more }));
    await waitFor(
      () =>
        this.violations.length > 0
          ? []
          : goals
              .filter(({ client, goal }) => client[count] < goal)
              .map(
                ({ client: { kind, [count]: reached }, goal }) => `${kind}: ${reached} of ${goal}`,
              ),
      (behind) => behind.length === 0,
      timeout,
    );
  }

  private run(url: string, kind: 'create' | 'read', pause: number): void {
    const client: LoadClient = { url, kind, pause, succeeded: 0, refused: 0 };
    this.clients.push(client);
    this.loops.push(this.loop(client, this.clients.length));
  }

  private async loop(client: LoadClient, number: number): Promise<void> {
    // Every second reader has the list of its last read, and asks whether it is still current.
    const cache = number % 2 === 0 ? { etag: '', rows: [] as readonly Row[] } : undefined;
    for (let turn = 0; !this.stopping; turn++) {
      if (client.pause > 0) await delay(Math.random() * client.pause);
      try {
        const status =
          client.kind === 'create'
            ? await this.create(client, `${number}-${turn}`)
            : await this.read(client, cache);
        if (status === 503) {
          client.refused++;
          await delay(PAUSE_AFTER_503);
        } else {
          client.succeeded++;
        }
      } catch (error) {
        if (!this.doomed.has(client.url)) {
          this.violations.push(`A ${client.kind} was not answered: ${String(error)}`);
        }
        return;
      }
    }
  }

  private async create(client: LoadClient, name: string): Promise<number> {
    this.sent.add(name);
    const answer = await this.exchange(client, JSON.stringify({ name }));
    if (answer.status !== 201) return this.checkError(client, answer);
    const row = JSON.parse(answer.body.toString()) as Row;
    if (!Number.isSafeInteger(row.id) || row.name !== name || Object.keys(row).length !== 2) {
      this.violations.push(`The create of ${name} was answered with ${answer.body.toString()}`);
    }
    if (this.createdIds.has(row.id)) this.violations.push(`The id ${row.id} was given twice`);
    this.createdIds.add(row.id);
    this.created.push(row);
    this.recordObserved(row);
    return answer.status;
  }

  private async read(
    client: LoadClient,
    cache: { etag: string; rows: readonly Row[] } | undefined,
  ): Promise<number> {
    const knownBefore = this.known.length;
    const answer = await this.exchange(client, undefined, cache?.etag);
    if (answer.status !== 200 && answer.status !== 304) return this.checkError(client, answer);
    const rows =
      answer.status === 304 ? cache!.rows : (JSON.parse(answer.body.toString()) as Row[]);
    if (cache !== undefined) Object.assign(cache, { etag: answer.headers.etag, rows });
    this.check(rows, knownBefore);
    return answer.status;
  }

  private async exchange(
    { url, kind }: LoadClient,
    body: string | undefined,
    etag = '',
  ): Promise<HttpResponse> {
    const begin = performance.now();
    const answer = await sendRequest(`${url}/v1/categories`, {
      agent: this.agent,
      headers: { ...jsonHeaders(this.key), ...(etag === '' ? {} : { 'if-none-match': etag }) },
      ...(body === undefined ? {} : { method: 'POST', body }),
    });
    const milliseconds = performance.now() - begin;
    this.answers.push({ url, kind, status: answer.status, milliseconds });
    return answer;
  }

  private check(rows: readonly Row[], knownBefore: number): void {
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    let last = 0;
    for (const { id, name } of rows) {
      if (id <= last) this.violations.push(`A list shows ${id} after ${last}`);
      if (!this.sent.has(name)) this.violations.push(`A list shows ${name}, which nobody has sent`);
      last = id;
    }
    if (new Set(names.values()).size !== rows.length) {
      this.violations.push('A list shows a create twice');
    }
    for (const { id, name } of this.known.slice(0, knownBefore)) {
      if (names.get(id) !== name) this.violations.push(`A list lacks ${id} (${name})`);
    }
    for (const row of rows) this.recordObserved(row);
  }

  private recordObserved(row: Row): void {
    const name = this.knownNames.get(row.id);
    if (name === undefined) {
      this.knownNames.set(row.id, row.name);
      this.known.push(row);
    } else if (name !== row.name) {
      this.violations.push(`${row.id} is ${name} and ${row.name}`);
    }
  }

  private checkError({ kind }: LoadClient, { status, headers, body }: HttpResponse): number {
    const text = body.toString();
    const isUnavailable =
      status === 503 &&
      /^[1-9]\d*$/.test(headers['retry-after'] ?? '') &&
      /^\{"code":"SERVICE_UNAVAILABLE","message":"[^"]+","status":503\}$/.test(text);
    if (!isUnavailable || this.options.allow503 !== true) {
      this.violations.push(
        `A ${kind} was answered ${status}, Retry-After ${headers['retry-after']}: ${text}`,
      );
    }
    return status;
  }
}
