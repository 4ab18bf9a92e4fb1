import { randomUUID } from 'node:crypto';
import type { OpenAPIObject } from '@nestjs/swagger';
import { isObject } from '../../../src/platform/validation/schema.js';
import type { TestApp } from './app.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './http-client.js';
import {
  findParameter,
  getBodySchema,
  getItemProperties,
  getStatus,
  hasHeader,
  type Operation,
  toTarget,
} from './routes.js';

type Json = Record<string, unknown>;
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A resource above another one, which is created with a body. */
export interface ParentExample {
  /** The parameter of the path that has its id. */
  readonly parameter: string;
  readonly path: string;
  readonly body: Json;
  /** The property of the response that has its id. */
  readonly id: string;
}

/** Examples of a resource. `n` is another number in each call, for values that must be unique. */
export interface ResourceExamples {
  /** Returns a valid body with every property. */
  readonly create: (n: number) => Json | Promise<Json>;
  /** Returns a valid body in which every value is another. */
  readonly other: (n: number) => Json | Promise<Json>;
  /** Values that are rejected with 400, by property. */
  readonly invalid?: Readonly<Record<string, readonly unknown[]>>;
  /** The groups of properties that no two resources may share. */
  readonly unique?: readonly (readonly string[])[];
  /** What responses have besides the body. */
  readonly shown?: object;
  /** The property that the path of a resource ends with. */
  readonly id?: string;
  /** The property of request bodies that has the examples, if they are in one. */
  readonly wrapper?: string;
  /** What returns 501 so far: operations by method, or `list`, and filters, such as `?q`. Any other 501 fails. */
  readonly stubs?: readonly string[];
  /** What the path is below, from the top; or a function that creates it, and returns the parameters of the path. */
  readonly parent?: readonly ParentExample[] | (() => Promise<Record<string, number | string>>);
}

const expectStatus = ({ status, text }: HttpResponse, expected: number): void =>
  expect([status, text]).toEqual([expected, text]);

const expectEqual = (actual: unknown, expected: unknown): void => expect(actual).toEqual(expected);

const expectMatch = (actual: unknown, expected: object): void =>
  expect(actual).toMatchObject(expected);

/** Sends the requests of a resource. */
class ResourceDriver {
  readonly operations: Readonly<Partial<Record<Method, Operation>>>;
  readonly list: Operation | undefined;
  readonly id: string;
  /** The operations that return 501, although the examples do not say so. */
  readonly stubs: string[] = [];
  /** The URL of the list, once there is a parent. */
  url = '';
  private count = 0;
  private readonly itemPath: string | undefined;

  constructor(
    readonly app: TestApp,
    readonly document: OpenAPIObject,
    private readonly path: string,
    private readonly examples: ResourceExamples,
  ) {
    const collection = path.replace(/\/$/, '');
    const paths = Object.keys(document.paths);
    this.itemPath = paths.find((each) => /^\/\{\w+\}\/?$/.test(each.replace(collection, '')));
    const find = (
      at: string | undefined,
      method: 'get' | 'post' | 'put' | 'patch' | 'delete',
      name = method.toUpperCase(),
    ) => {
      const operation = document.paths[at ?? '']?.[method];
      if (operation === undefined || !('501' in operation.responses)) return operation;
      if (examples.stubs?.includes(name) !== true) this.stubs.push(name);
      return undefined;
    };
    const { itemPath } = this;
    const all = {
      POST: find(path, 'post'),
      GET: find(itemPath, 'get'),
      PUT: find(itemPath, 'put'),
      PATCH: find(itemPath, 'patch'),
      DELETE: find(itemPath, 'delete'),
    };
    this.operations = Object.fromEntries(Object.entries(all).filter(([, each]) => each));
    this.list = find(path, 'get', 'list');
    this.id = examples.id ?? 'id';
  }

  async prepare(): Promise<void> {
    const { app, examples, document, path } = this;
    if (this.url !== '') return;
    const { parent: parents = [] } = examples;
    const values: Record<string, unknown> = typeof parents === 'function' ? await parents() : {};
    const fill = (template: string): string =>
      app.url +
      toTarget(document, template).replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
        encodeURIComponent(String(values[name])),
      );
    for (const parent of typeof parents === 'function' ? [] : parents) {
      const body = JSON.stringify(parent.body);
      const headers = jsonHeaders(app.key);
      const created = await sendRequest(fill(parent.path), { method: 'POST', headers, body });
      if (created.status >= 300)
        throw new Error(`The parent POST ${parent.path} was not created: ${created.text}`);
      values[parent.parameter] = unwrap(created, parent.id)[parent.id];
    }
    this.url = fill(path);
  }

  toUrl(resource: Json): string {
    const slash = this.itemPath?.endsWith('/') === true ? '/' : '';
    return `${this.url.replace(/\/$/, '')}/${encodeURIComponent(String(resource[this.id]))}${slash}`;
  }

  send(method: string, target: string, body?: Json, headers: Json = { 'if-match': '*' }) {
    const sent =
      this.examples.wrapper === undefined || !body ? body : { [this.examples.wrapper]: body };
    return sendRequest(target, {
      method,
      headers: { ...jsonHeaders(this.app.key), ...(headers as Record<string, string>) },
      ...(sent && { body: JSON.stringify(sent) }),
    });
  }

  create = async (): Promise<Json> => this.examples.create(++this.count);
  other = async (): Promise<Json> => this.examples.other(++this.count);

  /** The properties that an operation accepts, and those that it requires. */
  getBody(method: Method): {
    properties: Readonly<Record<string, Json>>;
    required: readonly string[];
  } {
    const { wrapper } = this.examples;
    const select: Parameters<typeof getBodySchema>[3] = (body, parts) =>
      wrapper === undefined ? body : parts[wrapper]!;
    return getBodySchema(this.document, this.operations[method]!, undefined, select);
  }

  /** The properties of a body that an operation accepts. */
  pick(method: Method, body: Json, names = Object.keys(this.getBody(method).properties)): Json {
    return Object.fromEntries(Object.entries(body).filter(([name]) => names.includes(name)));
  }

  async createOne(body?: Json): Promise<Json> {
    const sent = body ?? (await this.create());
    const response = await this.send('POST', this.url, sent);
    expectStatus(response, getStatus(this.operations.POST!));
    const created = response.text === '' ? {} : unwrap(response, this.id);
    if (Object.keys(created).length > 1)
      expectEqual({ ...sent, ...created }, { ...created, ...this.toShown('POST', sent) });
    return { ...this.toShown('POST', sent), ...created };
  }

  /** Returns what responses show of a body. */
  private toShown(method: Method, body: Json): Json {
    const { properties } = this.getBody(method);
    const shown = Object.entries(body).filter(([name]) => properties[name]?.['writeOnly'] !== true);
    return { ...Object.fromEntries(shown), ...this.examples.shown };
  }

  /** Sends a change of a resource, or, if it is new, a request to create one. */
  change(method: Method, resource: Json, body?: Json): Promise<HttpResponse> {
    return this.send(method, method === 'POST' ? this.url : this.toUrl(resource), body);
  }

  /** Changes or deletes a resource, and expects the documented status. */
  async expectChange(method: Method, resource: Json, body?: Json): Promise<void> {
    expectStatus(await this.change(method, resource, body), getStatus(this.operations[method]!));
  }

  /** Expects that a resource is read and listed with values, or, without them, not at all. */
  async expectStored(resource: Json, values: Json | undefined = resource): Promise<void> {
    if (this.operations.GET !== undefined) {
      const response = await this.send('GET', this.toUrl(resource));
      expectStatus(response, 200);
      expectMatch(unwrap(response, this.id), values);
    }
    if (this.list === undefined || resource[this.id] === undefined) return;
    const own = (await this.listAll()).find((each) => each[this.id] === resource[this.id]);
    const shown = Object.keys(getItemProperties(this.document, this.list));
    const listed = Object.entries(values).filter(([name]) => shown.includes(name));
    expectMatch(own, Object.fromEntries(listed));
  }

  async expectGone(resource: Json): Promise<void> {
    if (this.operations.GET !== undefined)
      expectStatus(await this.send('GET', this.toUrl(resource)), 404);
    if (this.list === undefined) return;
    const ids = (await this.listAll()).map((each) => each[this.id]);
    expectEqual(ids.includes(resource[this.id]), false);
  }

  /** Returns the items of all pages, by following the links. */
  async listAll(query = ''): Promise<Json[]> {
    const items: Json[] = [];
    for (let next: string | undefined = this.url + query; next !== undefined;) {
      const response = await this.send('GET', next);
      expectStatus(response, 200);
      const page = response.json<object>();
      items.push(...(Object.values({ page, ...page }).find(Array.isArray) as Json[]));
      const link = /^<(.+)>/.exec((response.headers['link'] as string | undefined) ?? '')?.[1];
      next = link && new URL(link, next).href;
    }
    return items;
  }
}

/** Returns the resource in a response, which may be in a property. */
function unwrap(response: HttpResponse, id: string): Json {
  const body = response.json<Json>();
  const inner = Object.values(body).find((each): each is Json => isObject(each) && id in each);
  return id in body ? body : (inner ?? body);
}

/**
 * Declares the tests of the operations that the OpenAPI document of an application has for a resource: list and pages,
 * create, read, replace, patch and delete. Call it at the top level of a test file, with `await`.
 *
 * @param path the path of the list, such as `/pets` or `/owners/{ownerId}/pets`; it must have a create operation
 */
export async function describeResource(
  app: TestApp,
  path: string,
  examples: ResourceExamples,
): Promise<void> {
  const { invalid = {}, unique = [], stubs = [] } = examples;
  const document = await app.getDocument();
  const driver = new ResourceDriver(app, document, path, examples);
  const { operations, list, id } = driver;
  const { POST: post } = operations;
  // Jest waits for an application that listens.
  if (post === undefined) await app.stop();
  if (post === undefined) throw new Error(`The OpenAPI document has no POST ${path}.`);
  describe(path, () => {
    beforeAll(() => driver.prepare());

    for (const name of driver.stubs)
      it(`implements ${name}`, () => {
        throw new Error(`${name} returns 501: implement it, or add it to stubs`);
      });

    for (const method of (['POST', 'PUT', 'PATCH'] as const).filter((each) => operations[each])) {
      for (const [name, values] of Object.entries({ ...invalid, unknownProperty: [1] }))
        it(`rejects an invalid ${name} of a ${method} request with 400`, async () => {
          const resource = await driver.createOne();
          const body = driver.pick(method, await driver.other());
          for (const value of values)
            expect(await driver.change(method, resource, { ...body, [name]: value })).toBeError(
              'VALIDATION_FAILED',
            );
          await driver.expectStored(resource);
        });

      for (const names of unique)
        it(`rejects the ${names.join(' and ')} of another resource in a ${method} request with 409`, async () => {
          const [existing, resource] = [await driver.createOne(), await driver.createOne()];
          const same = Object.fromEntries(names.map((name) => [name, existing[name]]));
          const body = { ...driver.pick(method, await driver.other()), ...same };
          expect(await driver.change(method, resource, body)).toBeError('ALREADY_EXISTS');
          await driver.expectStored(resource);
        });
    }

    it('creates a resource with all properties, or with the required ones', async () => {
      const body = await driver.create();
      await driver.expectStored(await driver.createOne(body));
      const required = [...driver.getBody('POST').required, id];
      const minimal = driver.pick('POST', await driver.create(), required);
      await driver.expectStored(await driver.createOne(minimal));
    });

    if (findParameter(post, 'Idempotency-Key') !== undefined)
      it('creates one resource for each Idempotency-Key, and returns its location', async () => {
        const body = await driver.create();
        const headers = { 'idempotency-key': randomUUID() };
        const first = await driver.send('POST', driver.url, body, headers);
        const second = await driver.send('POST', driver.url, body, headers);
        expect([second.status, second.text]).toEqual([first.status, first.text]);
        expect(second.headers['idempotency-replayed']).toBe('true');
        expect(second.headers.location).toBe(first.headers.location);
        if (hasHeader(post, 'Location'))
          expect(new URL(first.headers.location!, driver.url).href).toBe(
            driver.toUrl(unwrap(first, id)),
          );
      });

    if (list !== undefined)
      it('lists the resources once, also page by page, or filtered', async () => {
        const created = [
          await driver.createOne(),
          await driver.createOne(),
          await driver.createOne(),
        ];
        const query = findParameter(list, 'limit') === undefined ? '' : '?limit=2';
        const ids = (await driver.listAll(query)).map((each) => each[id]);
        expect(new Set(ids).size).toBe(ids.length);
        if (created[0]![id] !== undefined)
          expect(ids).toEqual(expect.arrayContaining(created.map((each) => each[id])));
        const body = await driver.other();
        for (const name of Object.keys(body).filter((each) => findParameter(list, each)))
          for (const value of [created[0]![name], body[name]]) {
            const filtered = `${driver.url}?${name}=${encodeURIComponent(String(value))}`;
            if (stubs.includes(`?${name}`)) continue;
            const found = (await driver.listAll(filtered.slice(driver.url.length))).map(
              (each) => each[id],
            );
            expect([name, found.includes(created[0]![id])]).toEqual([
              name,
              value === created[0]![name],
            ]);
          }
      });

    for (const method of (['PUT', 'PATCH'] as const).filter((each) => operations[each]))
      it(`changes a resource with a ${method} request, and no other`, async () => {
        const [resource, kept] = [await driver.createOne(), await driver.createOne()];
        const changes = {
          ...driver.pick(method, await driver.other()),
          ...(id in driver.getBody(method).properties && { [id]: resource[id] }),
        };
        await driver.expectChange(method, resource, changes);
        await driver.expectStored(resource, changes);
        await driver.expectStored(kept);
        if (method === 'PUT') return;
        for (const [name, value] of Object.entries(driver.pick(method, await driver.create()))) {
          const required = driver.pick(method, changes, [...driver.getBody(method).required]);
          if (name === id) continue;
          await driver.expectChange(method, resource, { ...required, [name]: value });
          changes[name] = value;
          await driver.expectStored(resource, changes);
        }
      });

    if (operations.DELETE !== undefined)
      it('deletes only the resource', async () => {
        const [resource, kept] = [await driver.createOne(), await driver.createOne()];
        await driver.expectChange('DELETE', resource);
        await driver.expectGone(resource);
        await driver.expectStored(kept);
      });

    for (const method of (['GET', 'PUT', 'PATCH', 'DELETE'] as const).filter(
      (each) => operations[each],
    ))
      it(`returns 404 for ${method} of an unknown resource, and 412 for one with another ETag`, async () => {
        const resource = await driver.createOne();
        const body = operations[method]!.requestBody && driver.pick(method, await driver.other());
        for (const key of [Number.MAX_SAFE_INTEGER, randomUUID(), 'missing'])
          expect(await driver.send(method, driver.toUrl({ [id]: key }), body)).toBeError(
            'NOT_FOUND',
          );
        if (findParameter(operations[method]!, 'If-Match') === undefined) return;
        const headers = { 'if-match': '"999"' };
        const response = await driver.send(method, driver.toUrl(resource), body, headers);
        expect(response).toBeError('PRECONDITION_FAILED');
      });

    it('returns 304 if a representation with an ETag is unchanged, and 401 without a key', async () => {
      const target = driver.toUrl(await driver.createOne());
      for (const [operation, url] of [
        [list, driver.url],
        [operations.GET, target],
      ] as const) {
        if (operation === undefined) continue;
        const isPublic = operation.security?.length === 0;
        expect((await sendRequest(url)).status === 401).toBe(!isPublic);
        const { etag = '"1"' } = (await driver.send('GET', url)).headers;
        const { status } = await driver.send('GET', url, undefined, { 'if-none-match': etag });
        expect(status).toBe(hasHeader(operation, 'ETag') ? 304 : 200);
      }
    });
  });
}
