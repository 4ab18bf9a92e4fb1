import { randomUUID } from 'node:crypto';
import type { OpenAPIObject } from '@nestjs/swagger';
import { applyMergePatch } from '../../../src/platform/resource/merge-patch.js';
import { isObject } from '../../../src/platform/validation/schema.js';
import type { TestApp } from './app.js';
import { FORM, toForm } from './form.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './http-client.js';
import {
  findParameter,
  getBodySchema,
  getItemProperties,
  getStatus,
  hasHeader,
  type Operation,
  toTarget,
  withDefaults,
} from './routes.js';

type Json = Record<string, unknown>;

const hasDefault = (schema: Json | undefined): boolean => schema?.['default'] !== undefined;

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
  /** The paths of what properties refer to, such as `{ tags: '/tags' }`. */
  readonly references?: Readonly<Record<string, string>>;
  /** What responses have besides the body. */
  readonly shown?: object;
  /** The property that the path of a resource ends with. */
  readonly id?: string;
  /** The property of request bodies that has the examples, if they are in one. Responses are searched for the resource. */
  readonly envelope?: string;
  /** Creates what the path is below, and returns the parameters of the path; `n` is another digit in each call. */
  readonly parent?: (n: number) => Promise<Record<string, number | string>>;
}

const keep = (operations: Record<string, Operation | undefined>): [string, Operation][] =>
  Object.entries(operations).filter(
    (entry): entry is [string, Operation] => entry[1] !== undefined,
  );

/** Whether null is valid, also beside a reference. */
const isNullable = ({ nullable, anyOf = [] }: Json): boolean =>
  nullable === true || (anyOf as Json[]).some((each) => each['nullable'] === true);

type Methods = Readonly<Partial<Record<'get' | 'post' | 'put' | 'patch' | 'delete', Operation>>>;

const withoutStubs = (item: Methods = {}): Methods =>
  Object.fromEntries(keep(item).filter(([, operation]) => !('501' in (operation.responses ?? {}))));

/** Whether a list has a query parameter that is required. */
const isSelected = ({ parameters = [] }: Operation): boolean =>
  parameters.some((each) => 'in' in each && each.in === 'query' && each.required === true);

/** Expects a status. A failure shows the response, too, such as the message of a 400. */
const expectStatus = ({ status, text }: HttpResponse, expected: number): void =>
  expect([status, text]).toEqual([expected, text]);

const expectEqual = (actual: unknown, expected: unknown): void => expect(actual).toEqual(expected);

const SCALARS = new Set(['string', 'number', 'boolean']);

/** Sends the requests of a resource, and knows what its responses should be. */
class ResourceDriver {
  readonly list: Operation | undefined;
  readonly post: Operation;
  readonly get: Operation | undefined;
  readonly put: Operation | undefined;
  readonly patch: Operation | undefined;
  readonly remove: Operation | undefined;
  readonly id: string;
  readonly bodySchema;
  /** The URL of the list, once there is a parent. */
  url = '';
  private count = 0;
  private parents = 0;
  private readonly itemPath: string | undefined;
  private readonly createdProperties: Json;
  private readonly itemProperties: Json;
  /** What responses have for a property without a value: null, if it is valid, or their default. */
  private readonly nulls: Json;

  /** @throws {Error} if the path has no create operation */
  constructor(
    private readonly app: TestApp,
    private readonly document: OpenAPIObject,
    private readonly path: string,
    private readonly examples: ResourceExamples,
  ) {
    const { paths } = document;
    const collection = path.replace(/\/$/, '');
    this.itemPath = Object.keys(paths).find((each) =>
      each.replace(collection, '').match(/^\/\{\w+\}\/?$/),
    );
    const { get, post } = withoutStubs(paths[path]);
    // A filter that is required has to have the value of each resource.
    const list = get && isSelected(get) ? undefined : get;
    const { get: read, put, patch, delete: remove } = withoutStubs(paths[this.itemPath ?? '']);
    if (post === undefined) throw new Error(`The OpenAPI document has no POST ${path}.`);
    Object.assign(this, { list, get: read, put, patch, remove });
    this.post = post;
    this.id = examples.id ?? 'id';
    this.bodySchema = this.getRequest(post);
    const created = this.getResponse(post).properties;
    const items = list === undefined ? {} : getItemProperties(document, list);
    const shown = read === undefined ? {} : this.getResponse(read).properties;
    [this.createdProperties, this.itemProperties] = [created, items];
    this.nulls = Object.fromEntries(
      [created, shown, items]
        .flatMap((properties) => Object.entries(properties))
        .filter(([name]) => name !== this.id && this.bodySchema.properties[name])
        .filter(([, schema]) => isNullable(schema) || hasDefault(schema))
        .map(([name, schema]) => [name, isNullable(schema) ? null : schema['default']]),
    );
  }

  /** Creates what the path is below, once. */
  async prepare(): Promise<void> {
    if (this.url === '') await this.moveToParent();
  }

  /** Creates what the path is below, and continues there. */
  async moveToParent(): Promise<void> {
    const { path, app, document, examples } = this;
    const values = await examples.parent?.(++this.parents);
    this.url = `${app.url}${toTarget(document, path).replaceAll(/\{(\w+)\}/g, (_match, name) => String(values![name as string]))}`;
  }

  /** The schema of the resource in the requests of an operation. */
  getRequest(operation: Operation) {
    return getBodySchema(
      this.document,
      operation,
      undefined,
      (body, parts) => parts[this.envelope] ?? body,
    );
  }

  create(): Promise<Json> {
    return Promise.resolve(this.examples.create(++this.count));
  }

  other(): Promise<Json> {
    return Promise.resolve(this.examples.other(++this.count));
  }

  toUrl(resource: Json): string {
    const slash = this.itemPath?.endsWith('/') === true ? '/' : '';
    return `${this.url.replace(/\/$/, '')}/${encodeURIComponent(String(resource[this.id]))}${slash}`;
  }

  send(
    method: string,
    target: string,
    body?: Json,
    headers: Record<string, string> = { 'if-match': '*' },
  ): Promise<HttpResponse> {
    const sent = body && this.toSent(method, body);
    const isForm = this.isForm(method);
    return sendRequest(target, {
      method,
      headers: {
        ...jsonHeaders(this.app.key),
        ...(isForm && { 'content-type': FORM }),
        ...headers,
      },
      ...(sent && { body: isForm ? toForm(sent) : JSON.stringify(sent) }),
    });
  }

  /** Whether the body of the operations with a method is a form, in which no value is null. */
  isForm(method: string): boolean {
    const body = this.getOperation(method)?.requestBody;
    return body !== undefined && 'content' in body && FORM in body.content;
  }

  private getOperation(method: string): Operation | undefined {
    const { post: POST, put: PUT, patch: PATCH } = this;
    return { POST, PUT, PATCH }[method];
  }

  async createOne(body?: Json): Promise<Json> {
    const sent = body ?? (await this.create());
    const response = await this.send('POST', this.url, sent);
    expectStatus(response, getStatus(this.post));
    const created = this.toCreated(response, sent);
    const expected = { [this.id]: expect.anything() as unknown, ...this.toShown(sent) };
    expectEqual(created, this.toPart(expected, this.createdProperties));
    // Other responses may show more.
    return { ...this.toStored(sent), ...created };
  }

  /** Sends other values, of which some are given. */
  async change(method: string, resource: Json, properties: Json): Promise<HttpResponse> {
    const body = await this.other();
    if (method === 'POST') return this.send(method, this.url, { ...body, ...properties });
    const accepted = method === 'PUT' ? this.toAccepted(this.put!, body, resource) : {};
    return this.send(method, this.toUrl(resource), { ...accepted, ...properties });
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

  /** Expects that a resource is read and listed as it is, or not at all. */
  async expectStored(resource: Json, isStored = true): Promise<void> {
    const { list, get } = this;
    if (list !== undefined)
      expectEqual(await this.listOwn([resource]), isStored ? [this.toItem(resource)] : []);
    if (get === undefined) return;
    const response = await this.send('GET', this.toUrl(resource));
    expectStatus(response, isStored ? 200 : 404);
    if (!isStored) return;
    const { properties } = this.getResponse(get);
    const read = this.toKnown(this.getResource(response) ?? {}, resource, properties);
    expectEqual(read, this.toPart(resource, properties));
  }

  /** Returns the items of resources, in the order of the list, without what is not known of them. */
  async listOwn(resources: readonly Json[], query = ''): Promise<Json[]> {
    const items = await this.listAll(query);
    return items.flatMap((item) => {
      const own = resources.find((each) => each[this.id] === item[this.id]);
      return own === undefined ? [] : [this.toKnown(item, own, this.itemProperties)];
    });
  }

  /** Returns what a response shows without what the response to the POST request, which may show less, has not told. */
  private toKnown(shown: Json, resource: Json, documented: Json): Json {
    const isKnown = (name: string): boolean =>
      !this.isHidden(name) && (name in this.createdProperties || resource[name] !== undefined);
    return Object.fromEntries(
      Object.entries(shown).filter(([name]) => isKnown(name) || !(name in documented)),
    );
  }

  /** Returns the properties that the body of an operation requires. */
  toRequired(operation: Operation, body: Json): Json {
    return Object.fromEntries(
      this.getRequest(operation).required.map((name) => [name, body[name]]),
    );
  }

  /** Returns the properties of a body that an operation on a resource accepts, with the id of the resource. */
  toAccepted(operation: Operation, body: Json, resource: Json): Json {
    const { properties } = this.getRequest(operation);
    const given = Object.entries({ ...body, [this.id]: resource[this.id] });
    return Object.fromEntries(given.filter(([name]) => name in properties));
  }

  /** Returns the required properties, and the one that selects the resource. */
  toMinimal(body: Json): Json {
    const { required } = this.bodySchema;
    const entries = Object.entries(body);
    return Object.fromEntries(
      entries.filter(([name]) => name === this.id || required.includes(name)),
    );
  }

  /** Returns what a response to a body has. */
  toShown(body: Json): Json {
    return { ...this.toStored(body), ...this.examples.shown };
  }

  /** Returns a body with defaults, and without what is only in requests. */
  private toStored(body: Json): Json {
    const properties = Object.entries(this.bodySchema.properties).flatMap(([name, schema]) => {
      const value = withDefaults(this.document, schema, body[name] ?? schema['default']);
      return value === undefined || schema['writeOnly'] === true ? [] : [[name, value]];
    });
    return this.withNulls(Object.fromEntries(properties));
  }

  withNulls(resource: Json): Json {
    return { ...this.nulls, ...resource };
  }

  /** Returns the created resource; without a body of the response, the client has chosen the id. */
  toCreated(response: HttpResponse, sent: Json): Json {
    return (response.text === '' ? undefined : this.getResource(response)) ?? this.toShown(sent);
  }

  toItem(resource: Json): Json {
    return this.toPart(resource, this.itemProperties);
  }

  /**
   * Returns the properties of a resource that a response has: all, if none is documented. One that is
   * documented with another type than that of the body is not returned.
   */
  private toPart(resource: Json, documented: Json): Json {
    if (Object.keys(documented).length === 0) return resource;
    const entries = Object.entries(resource).filter(([name, value]) => {
      const type = String((documented[name] as Json | undefined)?.['type']);
      const scalar = type === 'integer' ? 'number' : type;
      const isScalar = SCALARS.has(scalar) && SCALARS.has(typeof value);
      const isSame = !isScalar || typeof value === scalar;
      return name in documented && isSame && !this.isHidden(name);
    });
    return Object.fromEntries(entries);
  }

  /** Whether the response to the POST request does not show what is stored. */
  private isHidden(name: string): boolean {
    const { shown = {} } = this.examples;
    return name in shown && (shown as Json)[name] === undefined;
  }

  private get envelope(): string {
    return this.examples.envelope ?? '';
  }

  /** Returns what is sent: a body, or an envelope with it. */
  private toSent(method: string, body: Json): Json {
    const { envelope } = this;
    const operation = this.getOperation(method);
    const isInEnvelope =
      operation && envelope in getBodySchema(this.document, operation).properties;
    return isInEnvelope === true ? { [envelope]: body } : body;
  }

  private getResponse(operation: Operation) {
    const own = [this.id, ...Object.keys(this.bodySchema.properties)];
    return getBodySchema(this.document, operation, getStatus(operation), (body, parts) => {
      const schemas = [body, ...Object.values(parts)];
      const has = (name: string) => schemas.find(({ properties = {} }) => name in properties);
      return own.map(has).find((each) => each !== undefined) ?? {};
    });
  }

  /** Returns the resource in a response, if it has one. */
  private getResource(response: HttpResponse): Json | undefined {
    const body = response.json<Json>();
    const objects = [...Object.values(body), body].filter((each): each is Json => isObject(each));
    const isOwn = (each: Json) => Object.keys(each).some((name) => name in this.createdProperties);
    return objects.findLast((each) => this.id in each) ?? objects.find(isOwn);
  }
}

/** Expects that an operation requires a key, unless it is public. */
async function expectKeyRequired(operation: Operation, target: string, method: string) {
  const response = await sendRequest(target, { method });
  if (operation.security?.length === 0) expect(response.status).not.toBe(401);
  else expect(response).toBeError('UNAUTHORIZED');
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
  const { invalid = {}, unique = [], references = {}, shown = {} } = examples;
  const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
  let driver: ResourceDriver;
  try {
    driver = new ResourceDriver(app, document, path, examples);
  } catch (error) {
    // Jest waits for an application that listens.
    await app.stop();
    throw error;
  }
  const { list, post, get, put, patch, remove, id, bodySchema } = driver;
  for (const [method, operation] of keep({ POST: post, PUT: put, PATCH: patch }))
    describe(`${method} ${path}`, () => {
      beforeAll(() => driver.prepare());

      for (const [name, values] of Object.entries({ ...invalid, unknownProperty: [1] }))
        it(`rejects an invalid ${name} with 400`, async () => {
          const resource = await driver.createOne();
          const message = new RegExp(`\\b${name}\\b`);
          for (const value of values)
            expect(await driver.change(method, resource, { [name]: value })).toBeError(
              'VALIDATION_FAILED',
              message,
            );
          await driver.expectStored(resource);
        });

      const { properties } = driver.getRequest(operation);
      // The service ignores the id in a body that changes a resource.
      const isChosen = method === 'POST' && bodySchema.required.includes(id);
      const groups = isChosen && !unique.some(([name]) => name === id) ? [...unique, [id]] : unique;
      for (const names of groups.filter((group) => group.every((name) => name in properties)))
        it(`rejects the ${names.join(' and ')} of another resource with 409`, async () => {
          const [existing, resource] = [await driver.createOne(), await driver.createOne()];
          const same = Object.fromEntries(names.map((name) => [name, existing[name]]));
          expect(await driver.change(method, resource, same)).toBeError('ALREADY_EXISTS');
          await driver.expectStored(resource);
        });
    });

  describe(path, () => {
    beforeAll(() => driver.prepare());

    it('creates a resource with all properties, or with the required ones', async () => {
      await driver.expectStored(await driver.createOne());
      await driver.expectStored(await driver.createOne(driver.toMinimal(await driver.create())));
    });

    it('creates one resource for each Idempotency-Key, and returns its location', async () => {
      const body = await driver.create();
      const headers = { 'idempotency-key': randomUUID() };
      const first = await driver.send('POST', driver.url, body, headers);
      const hasKey = findParameter(post, 'Idempotency-Key') !== undefined;
      const second = hasKey ? await driver.send('POST', driver.url, body, headers) : first;
      expect([second.status, second.text]).toEqual([first.status, first.text]);
      expect(second.headers['idempotency-replayed']).toBe(hasKey ? 'true' : undefined);
      for (const name of ['etag', 'location'])
        expect(second.headers[name]).toBe(first.headers[name]);
      const created = driver.toCreated(first, body);
      const location = hasHeader(post, 'Location')
        ? first.headers.location!
        : driver.toUrl(created);
      expect(new URL(location, driver.url).href).toBe(driver.toUrl(created));
      await driver.expectStored(created);
    });

    if (examples.parent && unique.some((names) => names.length === 1 && names[0] === id))
      it(`creates resources with the same ${id} below different parents`, async () => {
        const { [id]: key } = await driver.createOne();
        const former = driver.url;
        await driver.moveToParent();
        expect(driver.url).not.toBe(former);
        await driver.expectStored(
          await driver.createOne({ ...(await driver.create()), [id]: key }),
        );
      });

    if (list !== undefined)
      it('lists the resources in the order of their ids, also page by page, or filtered', async () => {
        const created = [
          await driver.createOne(),
          await driver.createOne(),
          await driver.createOne(),
        ];
        const key = 'id' in created[0]! ? 'id' : id;
        // Integers may be text.
        const isNumber = created.every((each) => /^\d+$/.test(String(each[key])));
        const toOrder = (each: Json) => (isNumber ? Number(each[key]) : String(each[key]));
        const ascending = created.toSorted((a, b) => (toOrder(a) < toOrder(b) ? -1 : 1));
        const hasLimit = findParameter(list, 'limit') !== undefined;
        const hasPages = hasLimit && hasHeader(list, 'Link');
        if (hasLimit && !hasPages) expect(await driver.listAll('?limit=2')).toHaveLength(2);
        for (const query of hasPages ? ['', '?limit=2'] : [''])
          expect(await driver.listOwn(ascending, query)).toEqual(
            ascending.map((each) => driver.toItem(each)),
          );
        const body = await driver.other();
        for (const name of Object.keys(body).filter((each) => findParameter(list, each)))
          for (const value of [created[0]![name], body[name]]) {
            const query = `?${name}=${encodeURIComponent(String(value))}`;
            // The service does not support it, and says so.
            if ((await driver.send('GET', driver.url + query)).status === 501) continue;
            const items = await driver.listAll(query);
            const isIncluded = items.some((each) => each[id] === created[0]![id]);
            expect([name, isIncluded]).toEqual([name, value === created[0]![name]]);
          }
      });

    if (put !== undefined)
      it('replaces every property, and removes or resets those that are omitted', async () => {
        let resource = await driver.createOne();
        const { properties } = driver.getRequest(put);
        const isGiven = (name: string): boolean =>
          (bodySchema.required.includes(name) || hasDefault(bodySchema.properties[name])) &&
          !hasDefault(properties[name]);
        const body = driver.toAccepted(put, await driver.other(), resource);
        for (const replacement of [body, driver.toRequired(put, body)]) {
          expectStatus(
            await driver.send('PUT', driver.toUrl(resource), replacement),
            getStatus(put),
          );
          // What the body cannot have, or may lack although every resource has it, stays as it is.
          const kept = Object.entries(resource).filter(
            ([name]) => !(name in replacement) && (!(name in properties) || isGiven(name)),
          );
          const shownId = { [id]: resource[id] };
          resource = {
            ...driver.toShown(replacement),
            ...Object.fromEntries(kept),
            ...shown,
            ...shownId,
          };
          await driver.expectStored(resource);
        }
      });

    if (patch !== undefined)
      it('patches one property at a time, removes it if it is null, and keeps the others', async () => {
        let resource = await driver.createOne();
        const body = await driver.other();
        const required = driver.toRequired(patch, { ...body, [id]: resource[id] });
        const { [id]: _id, ...properties } = driver.getRequest(patch).properties;
        for (const [name, schema] of Object.entries(properties))
          for (const value of isNullable(schema) && !driver.isForm('PATCH')
            ? [body[name], null]
            : [body[name]]) {
            const changes = { ...required, [name]: value };
            const response = await driver.send('PATCH', driver.toUrl(resource), changes);
            expectStatus(response, getStatus(patch));
            if (schema.writeOnly !== true) resource = applyMergePatch(resource, changes) as Json;
            // A change may set other properties, such as its time.
            resource = { ...driver.withNulls(resource), ...shown };
            await driver.expectStored(resource);
          }
      });

    if (remove !== undefined)
      it('deletes only the resource', async () => {
        const [resource, kept] = [await driver.createOne(), await driver.createOne()];
        expectStatus(await driver.send('DELETE', driver.toUrl(resource)), getStatus(remove));
        await driver.expectStored(resource, false);
        await driver.expectStored(kept);
      });

    for (const [name, target] of Object.entries(references))
      it(`keeps what ${name} refers to from being deleted`, async () => {
        const resource = await driver.createOne();
        const [reference] = [resource[name]].flat();
        expect(
          await driver.send(
            'DELETE',
            `${app.url}${toTarget(document, target)}/${String(reference)}`,
          ),
        ).toBeError('RESOURCE_IN_USE');
        await driver.expectStored(resource);
      });

    for (const [method, operation] of keep({ GET: get, PUT: put, PATCH: patch, DELETE: remove }))
      it(`returns 404 for ${method} of an unknown resource, and 412 for one with another ETag`, async () => {
        const resource = await driver.createOne();
        const body =
          'requestBody' in operation
            ? driver.toAccepted(operation, await driver.other(), resource)
            : undefined;
        for (const key of [Number.MAX_SAFE_INTEGER, randomUUID(), 'missing'])
          expect(await driver.send(method, driver.toUrl({ [id]: key }), body)).toBeError(
            'NOT_FOUND',
          );
        if (findParameter(operation, 'If-Match') === undefined) return;
        const response = await driver.send(method, driver.toUrl(resource), body, {
          'if-match': '"999"',
        });
        expect(response).toBeError('PRECONDITION_FAILED');
        await driver.expectStored(resource);
      });

    it('returns 304 if a representation with an ETag is unchanged, and 401 without a key', async () => {
      const target = driver.toUrl(await driver.createOne());
      await expectKeyRequired(post, driver.url, 'POST');
      for (const [name, operation] of keep({ list, get })) {
        const read = name === 'list' ? driver.url : target;
        await expectKeyRequired(operation, read, 'GET');
        const { etag } = (await driver.send('GET', read)).headers;
        const { status } = await driver.send('GET', read, undefined, {
          'if-none-match': etag ?? '"1"',
        });
        expect(status).toBe(hasHeader(operation, 'ETag') ? 304 : 200);
      }
    });
  });
}
