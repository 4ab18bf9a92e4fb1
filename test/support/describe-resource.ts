import { randomUUID } from 'node:crypto';
import type { OpenAPIObject } from '@nestjs/swagger';
import { applyMergePatch } from '../../src/platform/resource/merge-patch.js';
import { isObject } from '../../src/platform/validation/schema.js';
import type { TestApp } from './app.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './http-client.js';
import {
  findParameter,
  getBodySchema,
  getItemProperties,
  getStatus,
  hasHeader,
  type Operation,
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
  /** Creates what the path is below, and returns the parameters of the path. */
  readonly parent?: () => Promise<Record<string, number | string>>;
}

let count = 0;

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
  const { create, other, invalid = {}, unique = [], references = {}, shown = {} } = examples;
  const { id = 'id', parent, envelope = '' } = examples;
  const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
  const { paths } = document;
  const collection = path.replace(/\/$/, '');
  const itemPath = Object.keys(paths).find((each) =>
    each.replace(collection, '').match(/^\/\{\w+\}\/?$/),
  );
  const { get: list, post } = withoutStubs(paths[path]);
  const { get, put, patch, delete: remove } = withoutStubs(paths[itemPath ?? '']);
  if (post === undefined) {
    // Jest waits for an application that listens.
    await app.stop();
    throw new Error(`The OpenAPI document has no POST ${path}.`);
  }
  const getRequest = (operation: Operation) =>
    getBodySchema(document, operation, undefined, (properties) => !(envelope in properties));
  const getResponse = (operation: Operation) =>
    getBodySchema(document, operation, getStatus(operation), (properties) => id in properties);
  const [bodySchema, postStatus] = [getRequest(post), getStatus(post)];
  const createdProperties = getResponse(post).properties;
  const itemProperties = list === undefined ? {} : getItemProperties(document, list);
  /** What responses have for a property without a value: null, if it is valid. */
  const nulls = Object.fromEntries(
    [createdProperties, get === undefined ? {} : getResponse(get).properties, itemProperties]
      .flatMap((properties) => Object.entries(properties))
      .flatMap(([name, schema]) =>
        isNullable(schema) && bodySchema.properties[name] ? [[name, null]] : [],
      ),
  );

  let url: string;
  beforeAll(async () => {
    const values = await parent?.();
    url = `${app.url}/v1${path.replaceAll(/\{(\w+)\}/g, (_match, name) => String(values![name as string]))}`;
  });
  const toUrl = (resource: Json): string =>
    `${url.replace(/\/$/, '')}/${encodeURIComponent(String(resource[id]))}${itemPath?.endsWith('/') === true ? '/' : ''}`;
  const operations: Record<string, Operation | undefined> = { POST: post, PUT: put, PATCH: patch };
  /** Returns what is sent: a body, or an envelope with it. */
  const toSent = (method: string, body: Json): Json => {
    const operation = operations[method];
    const isInEnvelope = operation && envelope in getBodySchema(document, operation).properties;
    return isInEnvelope === true ? { [envelope]: body } : body;
  };
  const send = (method: string, target: string, body?: Json, headers: Json = { 'if-match': '*' }) =>
    sendRequest(target, {
      method,
      headers: { ...jsonHeaders(app.key), ...(headers as Record<string, string>) },
      ...(body && { body: JSON.stringify(toSent(method, body)) }),
    });
  /** Returns the resource in a response, if it has one. */
  const getResource = (response: HttpResponse): Json | undefined => {
    const body = response.json<object>();
    return [body, ...Object.values(body)].find((each) => isObject(each) && id in each);
  };
  /** Returns the properties that the body of an operation requires. */
  const toRequired = (operation: Operation, body: Json): Json =>
    Object.fromEntries(getRequest(operation).required.map((name) => [name, body[name]]));
  /** Returns the properties of a body that an operation on a resource accepts, with the id of the resource. */
  const toAccepted = (operation: Operation, body: Json, resource: Json): Json => {
    const { properties } = getRequest(operation);
    const given = Object.entries({ ...body, [id]: resource[id] });
    return Object.fromEntries(given.filter(([name]) => name in properties));
  };
  /** Returns the required properties, and the one that selects the resource. */
  const toMinimal = (body: Json): Json =>
    Object.fromEntries(
      Object.entries(body).filter(([name]) => name === id || bodySchema.required.includes(name)),
    );
  /** Returns what a response to a body has: with defaults, and without what is only in requests. */
  const toShown = (body: Json): Json => {
    const properties = Object.entries(bodySchema.properties).flatMap(([name, schema]) => {
      const value = body[name] ?? schema['default'];
      return value === undefined || schema['writeOnly'] === true ? [] : [[name, value]];
    });
    return { ...nulls, ...Object.fromEntries(properties), ...shown };
  };
  /** Returns the created resource; without a body of the response, the client has chosen the id. */
  const toCreated = (response: HttpResponse, sent: Json): Json =>
    (response.text === '' ? undefined : getResource(response)) ?? toShown(sent);
  async function createOne(body?: Json): Promise<Json> {
    const sent = body ?? (await create(++count));
    const response = await send('POST', url, sent);
    const expected = { [id]: expect.anything(), ...toShown(sent) };
    const created = toCreated(response, sent);
    expect([response.status, created]).toEqual([postStatus, expected]);
    return created;
  }
  /** Returns the items of all pages, by following the links. */
  async function listAll(query = ''): Promise<Json[]> {
    const items: Json[] = [];
    for (let next: string | undefined = url + query; next !== undefined;) {
      const response = await send('GET', next);
      const page = response.json<object>();
      items.push(...(Object.values({ page, ...page }).find(Array.isArray) as Json[]));
      const link = /^<(.+)>/.exec((response.headers['link'] as string | undefined) ?? '')?.[1];
      next = link && new URL(link, next).href;
    }
    return items;
  }
  /** Returns the properties of a resource that a response has: all, unless they are documented with the id. */
  const toPart = (resource: Json, documented: Json): Json => {
    const entries = Object.entries(resource).filter(([name]) => name in documented);
    return id in documented ? Object.fromEntries(entries) : resource;
  };
  const toItem = (resource: Json): Json => toPart(resource, itemProperties);
  /** Expects that a resource is read and listed as it is, or not at all. */
  async function expectStored(resource: Json, isStored = true): Promise<void> {
    if (list !== undefined)
      expect((await listAll()).filter((each) => each[id] === resource[id])).toEqual(
        isStored ? [toItem(resource)] : [],
      );
    if (get === undefined) return;
    const response = await send('GET', toUrl(resource));
    // It may show more than the response to the POST request.
    const { properties } = getResponse(get);
    const isKnown = (name: string) => name in createdProperties || resource[name] !== undefined;
    const read = Object.entries(getResource(response) ?? {}).filter(
      ([name]) => isKnown(name) || !(name in properties),
    );
    expect(response.status === 404 ? [] : [Object.fromEntries(read)]).toEqual(
      isStored ? [toPart(resource, properties)] : [],
    );
  }

  async function change(method: string, resource: Json, properties: Json): Promise<HttpResponse> {
    const body = await other(++count);
    if (method === 'POST') return send(method, url, { ...body, ...properties });
    const accepted = method === 'PUT' ? toAccepted(put!, body, resource) : {};
    return send(method, toUrl(resource), { ...accepted, ...properties });
  }

  for (const [method, operation] of keep(operations))
    describe(`${method} ${path}`, () => {
      for (const [name, values] of Object.entries({ ...invalid, unknownProperty: [1] }))
        it(`rejects an invalid ${name} with 400`, async () => {
          const resource = await createOne();
          const message = new RegExp(`\\b${name}\\b`);
          for (const value of values)
            expect(await change(method, resource, { [name]: value })).toBeError(
              'VALIDATION_FAILED',
              message,
            );
          await expectStored(resource);
        });

      const { properties } = getRequest(operation);
      // The service ignores the id in a body that changes a resource.
      const isChosen = method === 'POST' && bodySchema.required.includes(id);
      const groups = isChosen && !unique.some(([name]) => name === id) ? [...unique, [id]] : unique;
      for (const names of groups.filter((group) => group.every((name) => name in properties)))
        it(`rejects the ${names.join(' and ')} of another resource with 409`, async () => {
          const [existing, resource] = [await createOne(), await createOne()];
          const same = Object.fromEntries(names.map((name) => [name, existing[name]]));
          expect(await change(method, resource, same)).toBeError('ALREADY_EXISTS');
          await expectStored(resource);
        });
    });

  describe(path, () => {
    it('creates a resource with all properties, or with the required ones', async () => {
      await expectStored(await createOne());
      await expectStored(await createOne(toMinimal(await create(++count))));
    });

    it('creates one resource for each Idempotency-Key, and returns its location', async () => {
      const body = await create(++count);
      const headers = { 'idempotency-key': randomUUID() };
      const first = await send('POST', url, body, headers);
      const hasKey = findParameter(post, 'Idempotency-Key') !== undefined;
      const second = hasKey ? await send('POST', url, body, headers) : first;
      expect([second.status, second.text]).toEqual([first.status, first.text]);
      expect(second.headers['idempotency-replayed']).toBe(hasKey ? 'true' : undefined);
      for (const name of ['etag', 'location'])
        expect(second.headers[name]).toBe(first.headers[name]);
      const created = toCreated(first, body);
      const location = hasHeader(post, 'Location') ? first.headers.location! : toUrl(created);
      expect(new URL(location, url).href).toBe(toUrl(created));
      await expectStored(created);
    });

    if (list !== undefined)
      it('lists the resources in the order of their ids, also page by page, or filtered', async () => {
        const created = [await createOne(), await createOne(), await createOne()];
        const key = 'id' in created[0]! ? 'id' : id;
        const ascending = created.toSorted((a, b) => (a[key]! < b[key]! ? -1 : 1));
        const ids = new Set(ascending.map((resource) => resource[id]));
        const hasLimit = findParameter(list, 'limit') !== undefined;
        const hasPages = hasLimit && hasHeader(list, 'Link');
        if (hasLimit && !hasPages) expect(await listAll('?limit=2')).toHaveLength(2);
        for (const query of hasPages ? ['', '?limit=2'] : [''])
          expect((await listAll(query)).filter((each) => ids.has(each[id]))).toEqual(
            ascending.map(toItem),
          );
        const body = await other(++count);
        for (const name of Object.keys(body).filter((each) => findParameter(list, each)))
          for (const value of [created[0]![name], body[name]]) {
            const items = await listAll(`?${name}=${encodeURIComponent(String(value))}`);
            const isIncluded = items.some((each) => each[id] === created[0]![id]);
            expect([name, isIncluded]).toEqual([name, value === created[0]![name]]);
          }
      });

    if (put !== undefined)
      it('replaces every property, and removes or resets those that are omitted', async () => {
        let resource = await createOne();
        const { properties } = getRequest(put);
        const isGiven = (name: string): boolean =>
          (bodySchema.required.includes(name) || hasDefault(bodySchema.properties[name])) &&
          !hasDefault(properties[name]);
        const body = toAccepted(put, await other(++count), resource);
        for (const replacement of [body, toRequired(put, body)]) {
          const { status } = await send('PUT', toUrl(resource), replacement);
          expect(status).toBe(getStatus(put));
          // What the body cannot have, or may lack although every resource has it, stays as it is.
          const kept = Object.entries(resource).filter(
            ([name]) => !(name in replacement) && (!(name in properties) || isGiven(name)),
          );
          const shownId = { [id]: resource[id] };
          resource = { ...toShown(replacement), ...Object.fromEntries(kept), ...shown, ...shownId };
          await expectStored(resource);
        }
      });

    if (patch !== undefined)
      it('patches one property at a time, removes it if it is null, and keeps the others', async () => {
        let resource = await createOne();
        const body = await other(++count);
        const required = toRequired(patch, { ...body, [id]: resource[id] });
        const { [id]: _id, ...properties } = getRequest(patch).properties;
        for (const [name, schema] of Object.entries(properties))
          for (const value of isNullable(schema) ? [body[name], null] : [body[name]]) {
            const changes = { ...required, [name]: value };
            const { status } = await send('PATCH', toUrl(resource), changes);
            expect([name, status]).toEqual([name, getStatus(patch)]);
            if (schema.writeOnly !== true) resource = applyMergePatch(resource, changes) as Json;
            // A change may set other properties, such as its time.
            resource = { ...nulls, ...resource, ...shown };
            await expectStored(resource);
          }
      });

    if (remove !== undefined)
      it('deletes only the resource', async () => {
        const [resource, kept] = [await createOne(), await createOne()];
        expect((await send('DELETE', toUrl(resource))).status).toBe(getStatus(remove));
        await expectStored(resource, false);
        await expectStored(kept);
      });

    for (const [name, target] of Object.entries(references))
      it(`keeps what ${name} refers to from being deleted`, async () => {
        const resource = await createOne();
        const [reference] = [resource[name]].flat();
        expect(await send('DELETE', `${app.url}/v1${target}/${String(reference)}`)).toBeError(
          'RESOURCE_IN_USE',
        );
        await expectStored(resource);
      });

    for (const [method, operation] of keep({ GET: get, PUT: put, PATCH: patch, DELETE: remove }))
      it(`returns 404 for ${method} of an unknown resource, and 412 for one with another ETag`, async () => {
        const resource = await createOne();
        const body =
          'requestBody' in operation
            ? toAccepted(operation, await other(++count), resource)
            : undefined;
        for (const key of [Number.MAX_SAFE_INTEGER, randomUUID(), 'missing'])
          expect(await send(method, toUrl({ [id]: key }), body)).toBeError('NOT_FOUND');
        if (findParameter(operation, 'If-Match') === undefined) return;
        const response = await send(method, toUrl(resource), body, { 'if-match': '"999"' });
        expect(response).toBeError('PRECONDITION_FAILED');
        await expectStored(resource);
      });

    it('returns 304 if a representation with an ETag is unchanged, and 401 without a key', async () => {
      const target = toUrl(await createOne());
      await expectKeyRequired(post, url, 'POST');
      for (const [name, operation] of keep({ list, get })) {
        const read = name === 'list' ? url : target;
        await expectKeyRequired(operation, read, 'GET');
        const { etag } = (await send('GET', read)).headers;
        const { status } = await send('GET', read, undefined, { 'if-none-match': etag ?? '"1"' });
        expect(status).toBe(hasHeader(operation, 'ETag') ? 304 : 200);
      }
    });
  });
}
