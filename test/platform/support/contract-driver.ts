/**
 * Sends the requests that a published OpenAPI document describes, and compares the responses with it. It reads the
 * original file, and nothing that the service or the generator makes of it.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import {
  Contract,
  get,
  isObject,
  type Json,
  type Operation,
  toBareName,
  withoutSlash,
} from './contract-document.js';
import { FORM, toForm } from './form.js';
import { type HttpResponse, sendRequest } from './http-client.js';
import { requires } from './requirements.js';

/** What a run found. */
export interface Result {
  /** How the service differs from the document: a sentence each. */
  readonly differences: readonly string[];
  /** The operations that were requested and implemented, those that returned 501, and those without a request to send. */
  readonly requested: readonly string[];
  readonly stubs: readonly string[];
  readonly skipped: readonly string[];
}

/** A resource that the driver created: what it sent, and what the response has. */
interface Created {
  readonly sent: Json;
  readonly shown: Json;
}

/**
 * Requests every operation of a document: creates two resources of each kind, and reads, changes and deletes one of them.
 *
 * @param file the path of the document, in JSON or YAML
 * @param url of what its paths are below
 */
export const driveContract = (file: string, url: string, key: string): Promise<Result> =>
  new Driver(new Contract(file), url, key).run();

class Driver {
  private readonly differences = new Set<string>();
  private readonly requested = new Set<string>();
  private readonly stubs = new Set<string>();
  private readonly skipped = new Set<string>();
  /** By the path of the collection. */
  private readonly created = new Map<string, Created[]>();
  /** Makes values unique, also among those of other tests of the same application. */
  private count = 500;

  constructor(
    private readonly contract: Contract,
    private readonly url: string,
    private readonly key: string,
  ) {}

  async run(): Promise<Result> {
    const { operations } = this.contract;
    for (const operation of operations) {
      await this.request(operation);
      // No resource below another one remains, which could not be deleted then.
      const isNested = operation.method === 'delete' && getCollection(operation.path).includes('{');
      if (operation.method === 'post' || isNested) await this.request(operation);
    }
    const paths = new Set(operations.map(({ path }) => path));
    for (const operation of operations) {
      const other = operation.path.endsWith('/')
        ? withoutSlash(operation.path)
        : `${operation.path}/`;
      const target = this.toTarget({ ...operation, path: other }) ?? '{';
      if (paths.has(other) || target.includes('{') || this.stubs.has(toName(operation))) continue;
      const { status } = await this.send(operation.method, target);
      if (status !== 404) this.report(operation, `${other} exists, too: ${status}`);
    }
    const { differences, requested, stubs, skipped } = this;
    return {
      differences: [...differences],
      requested: [...requested],
      stubs: [...stubs],
      skipped: [...skipped],
    };
  }

  private report(operation: Operation, text: string): void {
    this.differences.add(`${toName(operation)}: ${text}`);
  }

  /** Sends the request of an operation, and checks the response and what it changed. */
  private async request(operation: Operation): Promise<void> {
    const { method, path } = operation;
    const name = toName(operation);
    const target = this.toTarget(operation);
    const body = this.toBody(operation);
    if (target === undefined || body === null) {
      this.skipped.add(name);
      return;
    }
    const isItem = path.endsWith('}') || path.endsWith('}/');
    const isChange = isItem && ['put', 'patch', 'delete'].includes(method);
    const before = isChange ? await this.readBoth(path) : undefined;
    const result = await this.sendBody(operation, target, body);
    if (result === undefined) {
      this.skipped.add(name);
      return;
    }
    const { response, sent } = result;
    if (response.status === 501) this.stubs.add(name);
    else this.requested.add(name);
    if (response.status === 501 || !this.check(operation, response)) return;
    if (method === 'get' && !isItem) await this.checkFilters(operation, target, response.text);
    if (method === 'get') await this.checkParents(operation, target);
    const shown = response.text === '' || method === 'delete' ? {} : response.json();
    if (method === 'post')
      await this.remember(operation, sent ?? {}, isObject(shown) ? shown : {}, response);
    else if (before !== undefined) await this.compare(operation, before, sent ?? {});
  }

  /**
   * Sends a request without the properties that refer to nothing, as only `x-references` or an overlay says.
   *
   * @returns undefined if one of them is required
   */
  private async sendBody(
    operation: Operation,
    target: string,
    sent: Json | undefined,
  ): Promise<{ readonly response: HttpResponse; readonly sent: Json | undefined } | undefined> {
    const { method, pointer } = operation;
    const response = await this.send(method, target, operation, sent);
    const [, name] = REFERENCE.exec(response.text) ?? [];
    if (name === undefined || sent === undefined) return { response, sent };
    const { [name]: value, ...others } = sent;
    const { value: content } = this.contract.find(...pointer, 'requestBody', 'content');
    const place = [...pointer, 'requestBody', 'content', findType(content)!, 'schema'];
    const isValid =
      value !== undefined &&
      this.contract.validate(this.contract.find(...place).pointer, others, 'request') === undefined;
    return isValid ? this.sendBody(operation, target, others) : undefined;
  }

  /** Checks that nothing is found below other values of the parameters above it. */
  private async checkParents(operation: Operation, target: string): Promise<void> {
    const segments = withoutSlash(operation.path).split('/');
    const parents = segments
      .slice(0, -1)
      .flatMap((each, index) => (each.startsWith('{') ? index : []));
    for (const index of parents) {
      const other = target.split('/').with(index, '987654321').join('/');
      const { status } = await this.send('get', other, operation);
      if (status !== 404) this.report(operation, `ignores ${segments[index]}: ${status}`);
    }
  }

  /** Checks that a list does not ignore its optional query parameters: it has other rows, or the request is refused. */
  private async checkFilters(operation: Operation, target: string, text: string): Promise<void> {
    for (const { value, pointer } of this.getParameters(operation)) {
      const name = String(get(value, 'name'));
      const isFilter =
        get(value, 'in') === 'query' && get(value, 'required') !== true && !NO_FILTERS.test(name);
      const { value: schema } = this.contract.find(...pointer, 'schema');
      const choices = get(schema, 'type') === 'boolean' ? [true, false] : get(schema, 'enum');
      const values = Array.isArray(choices)
        ? choices
        : [this.contract.toSample([...pointer, 'schema'], this.count + 1000)].flat();
      if (!isFilter || values.length === 0 || getRows(JSON.parse(text)).length === 0) continue;
      const responses = await Promise.all(
        values.slice(-2).map((each) => {
          const query = new URLSearchParams({ [name]: String(each) });
          return this.send('get', `${target}?${query.toString()}`);
        }),
      );
      if (responses.every((each) => each.status === 200 && each.text === text))
        this.report(operation, `ignores ?${name}`);
    }
  }

  /** Compares a response with the document. @returns whether the operation succeeded */
  private check(operation: Operation, { status, headers, text }: HttpResponse): boolean {
    const { pointer } = operation;
    const responses = this.contract.find(...pointer, 'responses').value;
    const key = [String(status), `${String(status)[0]}XX`, 'default'].find(
      (each) => get(responses, each) !== undefined,
    );
    // Some documents have only errors.
    const isDeclared = Object.keys(isObject(responses) ? responses : {}).some((each) =>
      /^(2|default)/.test(each),
    );
    if (status < 300 && !isDeclared) return true;
    // Others are below it, and may have no operation that deletes them.
    if (status === 409 && text.includes('RESOURCE_IN_USE') && this.hasChildren(operation))
      return false;
    if (status >= 300 || key === undefined) {
      this.report(operation, `responds with ${status}: ${text.slice(0, 200)}`);
      return false;
    }
    const content = this.contract.find(...pointer, 'responses', key, 'content').value;
    const type = Object.keys(isObject(content) ? content : {}).find((each) =>
      /json|\*\/\*/.test(each),
    );
    if (type === undefined) return true;
    if (!/json/.test(headers['content-type'] ?? ''))
      this.report(operation, 'has no JSON in its response');
    const schema = [...pointer, 'responses', key, 'content', type, 'schema'];
    const reason =
      text === ''
        ? 'it is empty'
        : this.contract.validate(
            this.contract.find(...schema).pointer,
            JSON.parse(text),
            'response',
          );
    if (reason !== undefined) this.report(operation, `the response is invalid: ${reason}`);
    return true;
  }

  /** Whether resources below that of an operation were created. */
  private hasChildren({ path }: Operation): boolean {
    const start = `${getCollection(path)}/{}/`;
    return [...this.created].some(([each, { length }]) => each.startsWith(start) && length > 0);
  }

  private async remember(
    operation: Operation,
    sent: Json,
    shown: Json,
    { headers }: HttpResponse,
  ): Promise<void> {
    const collection = getCollection(operation.path);
    const resources = this.created.get(collection) ?? [];
    const own = Object.keys(shown).length > 0 ? shown : await this.findInList(operation, sent);
    this.created.set(collection, [...resources, { sent, shown: own }]);
    if (headers.location !== undefined) {
      const { status } = await sendRequest(
        new URL(headers.location, `${this.url}${this.toTarget(operation)}`).href,
        {
          headers: { authorization: `Bearer ${this.key}` },
        },
      );
      if (status === 404 || status === 405)
        this.report(operation, `nothing is at its Location, ${headers.location}`);
    }
    const item = this.contract.operations.find(
      ({ method, path }) =>
        method === 'get' && getCollection(path) === collection && /\}\/?$/.test(path),
    );
    if (item === undefined) return;
    const read = await this.readAt(item.path, -1);
    // The service may assign ids, which the report says.
    const { [this.findOwnKey(item.path)?.[0] ?? 'id']: _key, id: _id, ...rest } = sent;
    if (read !== undefined) this.expectSame(operation, rest, read, 'sent');
  }

  /** Returns the resource of a response without one, from the list of the path. */
  private async findInList({ path }: Operation, sent: Json): Promise<Json> {
    const list = this.contract.operations.find(
      (each) => each.method === 'get' && each.path === path,
    );
    const target = list && this.toTarget(list);
    if (target === undefined) return {};
    const body = (await this.send('get', target, list)).json<Json>();
    const isOwn = (row: Json): boolean =>
      Object.entries(sent).some(
        ([name, value]) => typeof value === 'string' && row[name] === value,
      );
    return getRows(body).find(isOwn) ?? {};
  }

  /** Compares what a change left of the resource, and of another one, with what they were. */
  private async compare(
    operation: Operation,
    [other, own]: readonly (Json | undefined)[],
    body: Json,
  ): Promise<void> {
    const { method, path } = operation;
    const [otherAfter, ownAfter] = await this.readBoth(path);
    if (JSON.stringify(other) !== JSON.stringify(otherAfter))
      this.report(operation, 'changes another resource');
    if (method === 'delete') {
      if (ownAfter !== undefined) this.report(operation, 'deletes nothing');
      this.created.get(getCollection(path))?.pop();
    } else if (own !== undefined && ownAfter !== undefined) {
      const { id: _id, ...rest } = body;
      this.expectSame(operation, rest, ownAfter, 'sent');
      const kept = Object.entries(own).filter(
        ([name]) => !(name in body) && !/(updat|modif|chang|version)/i.test(name),
      );
      if (method === 'patch')
        this.expectSame(operation, Object.fromEntries(kept), ownAfter, 'stored before');
    }
  }

  private expectSame(operation: Operation, expected: Json, actual: Json, origin: string): void {
    for (const [name, value] of Object.entries(expected))
      if (
        name in actual &&
        !isObject(value) &&
        !Array.isArray(value) &&
        JSON.stringify(value) !== JSON.stringify(actual[name])
      )
        this.report(
          operation,
          `${name} is ${JSON.stringify(actual[name])}, and ${JSON.stringify(value)} was ${origin}`,
        );
  }

  private readBoth(path: string): Promise<readonly (Json | undefined)[]> {
    return Promise.all([this.readAt(path, -2), this.readAt(path, -1)]);
  }

  /** Reads a resource, if an operation does; of an envelope, the object in it. */
  private async readAt(path: string, index: number): Promise<Json | undefined> {
    const read = this.contract.operations.find(
      (each) => each.method === 'get' && each.path === path,
    );
    const target = read && this.toTarget(read, index);
    if (target === undefined) return undefined;
    const response = await this.send('get', target, read);
    if (response.status !== 200) return undefined;
    const body = response.json<Json>();
    const { sent } = this.created.get(getCollection(path))!.at(index)!;
    return (
      [body, ...Object.values(body)]
        .filter(isObject)
        .find((each) => Object.keys(sent).some((name) => name in each)) ?? body
    );
  }

  /** Returns the path of a request; undefined if a parameter is unknown. @param values gets the parameters */
  private toTarget(
    { path }: Pick<Operation, 'path'>,
    index = -1,
    values = new Map<string, unknown>(),
  ): string | undefined {
    let isKnown = true;
    const target = path.replaceAll(/\{([^}]+)\}/g, (match, name: string, offset: number) => {
      const collection = getCollection(path.slice(0, offset - 1));
      // What is above the last parameter is always the newest.
      const isLast = !path.slice(offset + match.length).includes('{');
      const created = this.created.get(collection)?.at(isLast ? index : -1);
      const value = findKey(created, name, collection)?.[1];
      isKnown &&= value !== undefined;
      values.set(toBareName(name), value);
      return encodeURIComponent(String(value));
    });
    return isKnown ? target : undefined;
  }

  /** Returns a body; undefined if the operation has none, and null if no sample is valid. */
  private toBody({ method, path, pointer }: Operation): Json | null | undefined {
    const { value: content } = this.contract.find(...pointer, 'requestBody', 'content');
    if (!isObject(content)) return undefined;
    const type = findType(content);
    if (type === undefined) return null;
    const { pointer: schema } = this.contract.find(
      ...pointer,
      'requestBody',
      'content',
      type,
      'schema',
    );
    const sample = this.contract.toSample(schema, ++this.count);
    if (!isObject(sample)) return null;
    const key = method === 'post' ? undefined : this.findOwnKey(path);
    const parents = new Map<string, unknown>();
    this.toTarget({ path }, -1, parents);
    const entries = Object.entries(sample).map(
      ([name, value]) => [name, parents.get(toBareName(name)) ?? value] as const,
    );
    const own = key !== undefined && key[0] in sample ? { [key[0]]: key[1] } : {};
    const body = { ...Object.fromEntries(entries), ...own };
    const part = Object.fromEntries(Object.entries(body).slice(0, 1));
    return (
      (method === 'patch' ? [part, body] : [body]).find(
        (each) => this.contract.validate(schema, each, 'request') === undefined,
      ) ?? null
    );
  }

  /** Returns the property that identifies the newest resource of a path. */
  private findOwnKey(path: string) {
    const [, parameter = 'id'] = /\{([^}]+)\}\/?$/.exec(path) ?? [];
    const collection = getCollection(path);
    return findKey(this.created.get(collection)?.at(-1), parameter, collection);
  }

  /** The parameters of an operation and of its path, with the places of them. */
  private getParameters({ pointer }: Operation) {
    return [pointer, pointer.slice(0, -1)].flatMap((place) => {
      const { value } = this.contract.find(...place, 'parameters');
      return Array.isArray(value)
        ? value.map((_each, index) => this.contract.find(...place, 'parameters', String(index)))
        : [];
    });
  }

  private send(
    method: string,
    target: string,
    operation?: Operation,
    body?: Json,
  ): Promise<HttpResponse> {
    const security =
      operation &&
      (this.contract.find(...operation.pointer, 'security').value ??
        this.contract.find('security').value);
    const isPublic = Array.isArray(security) && security.length === 0;
    const content =
      operation && this.contract.find(...operation.pointer, 'requestBody', 'content').value;
    const type = findType(content) ?? '';
    // Objects of a form are JSON by default.
    const encoding = get(get(content, type), 'encoding');
    const isJson = (name: string): boolean => get(get(encoding, name), 'style') !== 'deepObject';
    const headers: Record<string, string> = {};
    const query = new URLSearchParams();
    for (const { value, pointer: at } of operation ? this.getParameters(operation) : []) {
      const name = String(get(value, 'name'));
      if (get(value, 'required') !== true || get(value, 'in') === 'path') continue;
      if (name.toLowerCase() === 'content-length') continue;
      const text = String(this.contract.toSample([...at, 'schema'], this.count));
      if (get(value, 'in') === 'query') query.append(name, text);
      else headers[name.toLowerCase()] = name.toLowerCase() === 'if-match' ? '*' : text;
    }
    return sendRequest(`${this.url}${target}${query.size > 0 ? `?${query.toString()}` : ''}`, {
      method: method.toUpperCase(),
      headers: {
        ...headers,
        ...(!isPublic && { authorization: `Bearer ${this.key}` }),
        ...(body && { 'content-type': /merge-patch|form/.test(type) ? type : 'application/json' }),
      },
      ...(body && { body: type === FORM ? toForm(body, isJson) : JSON.stringify(body) }),
    });
  }
}

/** The message of a 400 for a property that refers to nothing, or for an item of it. */
const REFERENCE = /"([\w-]+)[^" ]* must reference an existing resource/;

/** The media type of what the driver sends: JSON, or a form. */
const findType = (content: unknown): string | undefined => {
  const types = Object.keys(isObject(content) ? content : {});
  return types.find((each) => /json/.test(each)) ?? types.find((each) => each === FORM);
};

/** The query parameters that select a page, only shape a response, or have a credential. */
const NO_FILTERS =
  /limit|size|page|offset|skip|take|after|count|^(opt_?)?(fields|pretty)$|^(prettyprint|lang)$|^(api|app|auth|access)[-_]?(key|token|secret)$/i;

/** The rows of a list: an array, or an object with one. */
const getRows = (body: unknown): Json[] =>
  ([body, ...Object.values(body ?? {})].find((each) => Array.isArray(each)) as Json[]) ?? [];

const toName = ({ method, path }: Operation): string => `${method.toUpperCase()} ${path}`;
/** The path of a collection, whatever the operations name its parameters. */
const getCollection = (path: string): string =>
  withoutSlash(path)
    .replace(/\/\{[^}]+\}$/, '')
    .replaceAll(/\{[^}]+\}/g, '{}');

/**
 * Returns the property that a parameter of a path stands for, and its value: that of its name, that of its last word, as
 * `key` for `{projectKey}`, or the id, as for `{comment}` of `/comments`.
 */
function findKey(created: Created | undefined, parameter: string, collection: string) {
  const { shown = {}, sent = {} } = created ?? {};
  const objects = [shown, ...Object.values(shown), sent, ...Object.values(sent)].filter(isObject);
  const singular = toBareName(collection.split('/').at(-1)!).replace(/s$/, '');
  const whole = toBareName(parameter);
  const last = toBareName(parameter.split(/[-_]|(?<=[a-z])(?=[A-Z])/).at(-1)!);
  const ids = ['id', `${singular}id`, 'uuid'];
  const names = whole === singular ? [...ids, whole] : [whole, last, ...ids];
  return names
    .flatMap((name) =>
      objects.flatMap((each) => Object.entries(each)).filter(([key]) => toBareName(key) === name),
    )
    .find(([, value]) => ['string', 'number'].includes(typeof value));
}

/**
 * Declares the test of a module against the document that it was generated from; skipped if the file is not there.
 *
 * @param file the path of the document, relative to the project
 */
export function describeContract(
  app: { readonly url: string; readonly key: string },
  file: string,
  prefix = '/v1',
): void {
  requires(file, existsSync(file)).it(`responds as ${basename(file)} describes`, async () => {
    const { differences } = await driveContract(file, app.url + prefix, app.key);
    expect(differences).toEqual([]);
  });
}
