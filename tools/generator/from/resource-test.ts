/** Writes the test of a resource of a contract. */
import type { Resource, Route } from './resources.js';

const MISSING_ID = 'Number.MAX_SAFE_INTEGER';

/** Returns the source of the test, which is not formatted. */
export function renderResourceTest(resource: Resource): string {
  return new TestWriter(resource).render();
}

/** Returns the tests of some of the operations. */
export function renderRouteTests(resource: Resource, routes: readonly Route[]): string {
  const writer = new TestWriter(resource);
  return routes.map((route) => writer.renderRoute(route)).join('\n\n');
}

class TestWriter {
  private readonly noun: string;
  private readonly create: Route;
  /** An expression for a key that no row has. */
  private readonly missingKey: string;

  constructor(private readonly resource: Resource) {
    const { names, key, fields, routes } = resource;
    this.noun = names.noun;
    this.create = routes.find(({ kind }) => kind === 'create')!;
    this.missingKey = fields.find(({ name }) => name === key.name)?.sample ?? MISSING_ID;
  }

  render(): string {
    const { names, fields } = this.resource;
    const { Item } = names;
    const writables = fields.filter(({ readOnly }) => !readOnly);
    const hidden = fields.filter(({ writeOnly }) => writeOnly);
    const added = fields.filter((field) => field.readOnly && field.default !== undefined);
    const invalids = writables.flatMap((field) => [
      ...field.invalids.map((invalid) => `['${field.name}', ${invalid}]`),
      ...(field.nullable === true ? [] : [`['${field.name}', null]`]),
    ]);
    const hasList = this.resource.has.list;
    const needsOther = this.resource.routes.some(({ kind }) =>
      ['list', 'replace', 'update'].includes(kind),
    );
    const shown = [
      '...body',
      ...added.map(({ name, expectedDefault }) => `${name}: ${expectedDefault}`),
      ...(this.resource.showsId ? ['id: expect.any(Number)'] : []),
    ];
    const parts = [
      `import { randomUUID } from 'node:crypto';
import type { Test } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { insertRow } from './support/fixtures.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

type Body = Record<string, unknown>;

const send = (method: 'get' | 'post' | 'put' | 'patch' | 'delete', path: string): Test =>
  app.http()[method](\`/v1\${path}\`).auth(app.key, { type: 'bearer' });`,
      fields.some(({ sample }) => sample.includes('nextNumber'))
        ? `let lastNumber = 0;
/** Returns another number each time, for the values that must be unique. */
const nextNumber = (): number => ++lastNumber;`
        : '',
      `/** Returns a valid body with every property. */
const sampleBody = async (): Promise<Body> => ({ ${writables.map(({ name, sample }) => `${name}: ${sample}`).join(', ')} });`,
      needsOther
        ? `/** Returns another valid body with every property. */
const otherBody = async (): Promise<Body> => ({ ${writables.map(({ name, otherSample }) => `${name}: ${otherSample}`).join(', ')} });`
        : '',
      `/** Returns what the response to a body contains. */
const toResponse = ({ ${[...hidden.map(({ name }, index) => `${name}: _${index}`), '...body'].join(', ')} }: Body): Body => ({ ${shown.join(', ')} });`,
      `async function create${Item}(${hasList ? 'newBody?: Body' : ''}): Promise<Body> {
  const body = ${hasList ? 'newBody ?? (await sampleBody())' : 'await sampleBody()'};
  const response = await send('post', '${this.create.path}').send(body);
  expect([response.status, response.body]).toEqual([${this.create.status}, toResponse(body)]);
  return response.body as Body;
}`,
      `const INVALID_PROPERTIES: [string, unknown][] = [${[...invalids, `['unknownProperty', 1]`].join(', ')}];`,
      ...this.resource.routes.map((route) => this.renderRoute(route)),
    ];
    return parts.filter((part) => part !== '').join('\n\n');
  }

  renderRoute(route: Route): string {
    const method = {
      list: 'GET',
      read: 'GET',
      create: 'POST',
      replace: 'PUT',
      update: 'PATCH',
      delete: 'DELETE',
    }[route.kind];
    const tests = {
      list: () => this.renderList(route),
      create: () => this.renderCreate(),
      read: () => this.renderRead(route),
      replace: () => this.renderReplace(route),
      update: () => this.renderUpdate(route),
      delete: () => this.renderDelete(route),
    }[route.kind]();
    return `describe('${method} /v1${route.path}', () => {\n${tests.join('\n\n')}\n});`;
  }

  /** Returns the path of a row, as a template literal. */
  private getPath(route: Route, key: string): string {
    return route.isIdInBody
      ? `'${route.path}'`
      : `\`${route.path.replace(/\{\w+\}$/, () => `\${${key}}`)}\``;
  }

  private getItemPath(route: Route): string {
    return this.getPath(route, `String(created['${this.resource.key.name}'])`);
  }

  private getMissingPath(route: Route): string {
    return this.getPath(route, this.missingKey);
  }

  private createItem(): string {
    return `const created = await create${this.resource.names.Item}();`;
  }

  private renderCreate(): string[] {
    const { fields, names } = this.resource;
    const send = `send('post', '${this.create.path}')`;
    const required = fields.filter(
      (field) => !field.readOnly && !field.optional && field.default === undefined,
    );
    const uniques = fields.filter(({ unique, readOnly }) => unique && !readOnly);
    const references = fields.filter(({ references: table }) => table !== undefined);
    return [
      `it('creates ${names.nounWithArticle}, once for repeated requests with the same Idempotency-Key', async () => {
        await create${names.Item}();
        const body = await sampleBody();
        const create = (): Test => ${send}.set('Idempotency-Key', 'same').send(body);
        const { status, text${this.create.setsLocation ? ', headers' : ''} } = await create();
        expect(status).toBe(${this.create.status});
        expect((await create()).text).toBe(text);
        ${this.create.setsLocation ? `expect(headers['location']).toBe(\`${this.create.path.split('/').at(-1)}/\${(JSON.parse(text) as Body)['id'] as number}\`);` : ''}
      });`,
      `it.each(INVALID_PROPERTIES)('rejects an invalid %s with 400: %j', async (name, value) => {
        const response = await ${send}.send({ ...(await sampleBody()), [name]: value });
        expect(response).toBeError('VALIDATION_FAILED', new RegExp(name));
      });`,
      ...(required.length === 0
        ? []
        : [
            `it.each([${required.map(({ name }) => `'${name}'`).join(', ')}])('rejects a body without %s with 400', async (name) => {
        const response = await ${send}.send({ ...(await sampleBody()), [name]: undefined });
        expect(response).toBeError('VALIDATION_FAILED', \`\${name} is missing.\`);
      });`,
          ]),
      ...uniques.map(
        ({ name }) => `it('rejects the ${name} of another ${this.noun} with 409', async () => {
        const created = await create${names.Item}();
        const body = { ...(await sampleBody()), ${name}: created['${name}'] };
        expect(await ${send}.send(body)).toBeError('ALREADY_EXISTS', /has the same ${name}\\.$/);
      });`,
      ),
      ...references.map(
        ({ name }) => `it('rejects a ${name} that does not exist with 400', async () => {
        const body = { ...(await sampleBody()), ${name}: ${MISSING_ID} };
        expect(await ${send}.send(body)).toBeError('VALIDATION_FAILED', /^${name} must reference an existing /);
      });`,
      ),
    ];
  }

  private renderList(route: Route): string[] {
    const filters = route.query.filter((name) => name !== 'limit' && name !== 'after');
    const hasPages = route.query.includes('after');
    const page = hasPages
      ? [`...(Number(created['id']) > 1 ? { after: String(Number(created['id']) - 1) } : {})`]
      : [];
    const query = [...filters.map((name) => `${name}: String(created['${name}'])`), ...page];
    const path =
      query.length === 0
        ? `'${route.path}'`
        : `\`${route.path}?\${new URLSearchParams({ ${query.join(', ')} }).toString()}\``;
    return [
      `it('returns the ${this.resource.names.nouns}${filters.length === 0 ? '' : ' that it selects'}, with an ETag', async () => {
        const other = await create${this.resource.names.Item}(await otherBody());
        ${this.createItem()}
        const path = ${path};
        const response = await send('get', path);
        expect([response.status, response.body]).toEqual([${route.status}, expect.arrayContaining([created])]);
        ${filters.length === 0 ? (hasPages ? '' : `expect(response.body).toContainEqual(other);`) : `expect(response.body).not.toContainEqual(other);`}
        const unchanged = await send('get', path).set('If-None-Match', response.headers['etag']!);
        expect(unchanged.status).toBe(304);
      });`,
    ];
  }

  private renderRead(route: Route): string[] {
    return [
      `it('returns the ${this.noun}', async () => {
        ${this.createItem()}
        const response = await send('get', ${this.getItemPath(route)});
        expect([response.status, response.body]).toEqual([${route.status}, created]);
      });`,
      `it('returns 404 for an unknown ${this.noun}', async () => {
        expect(await send('get', ${this.getMissingPath(route)})).toBeError('NOT_FOUND');
      });`,
    ];
  }

  /** Returns statements that read the item again, if that is possible. */
  private renderReadBack(expected: string): string {
    const read = this.resource.routes.find(({ kind }) => kind === 'read');
    return read === undefined
      ? ''
      : `expect((await send('get', ${this.getItemPath(read)})).body).toEqual(${expected});`;
  }

  private renderReplace(route: Route): string[] {
    const { key } = this.resource;
    const isKeyInBody = route.isIdInBody || key.name !== 'id';
    const keyProperty = isKeyInBody ? `, ${key.name}: created['${key.name}']` : '';
    const result = route.returnsResource
      ? `expect([response.status, response.body]).toEqual([${route.status}, expected]);`
      : `expect(response.status).toBe(${route.status});`;
    return [
      `it('replaces every property', async () => {
        ${this.createItem()}
        const body = { ...(await otherBody())${keyProperty} };
        const response = await send('put', ${this.getItemPath(route)}).send(body);
        const expected = ${this.resource.showsId ? `{ ...toResponse(body), id: created['id'] }` : 'toResponse(body)'};
        ${result}
        ${this.renderReadBack('expected')}
      });`,
      `it('returns 404 for an unknown ${this.noun}', async () => {
        const body = { ...(await sampleBody())${route.isIdInBody ? `, ${key.name}: ${this.missingKey}` : ''} };
        expect(await send('put', ${this.getMissingPath(route)}).send(body)).toBeError('NOT_FOUND');
      });`,
      ...(route.isIdInBody
        ? [
            `it('rejects a body without ${key.name} with 400', async () => {
        expect(await send('put', '${route.path}').send(await sampleBody())).toBeError('VALIDATION_FAILED', '${key.name} is missing.');
      });`,
          ]
        : []),
    ];
  }

  private renderUpdate(route: Route): string[] {
    const { fields, patched } = this.resource;
    // A row is read back by its key.
    const changes = fields.filter(
      ({ name }) => patched.includes(name) && name !== this.resource.key.name,
    );
    return [
      `it('updates the given properties and no others', async () => {
        ${this.createItem()}
        const body = await otherBody();
        const changes = { ${changes.map(({ name }) => `${name}: body['${name}']`).join(', ')} };
        const response = await send('patch', ${this.getItemPath(route)}).send(changes);
        expect(response.status).toBe(${route.status});
        ${this.renderReadBack(
          `expect.objectContaining({ ...created, ${changes
            .filter(({ writeOnly }) => !writeOnly)
            .map(({ name }) => `${name}: body['${name}']`)
            .join(', ')} })`,
        )}
      });`,
      `it('returns 404 for an unknown ${this.noun}', async () => {
        expect(await send('patch', ${this.getMissingPath(route)}).send({})).toBeError('NOT_FOUND');
      });`,
    ];
  }

  private renderDelete(route: Route): string[] {
    return [
      `it('deletes the ${this.noun}', async () => {
        ${this.createItem()}
        const path = ${this.getItemPath(route)};
        const response = await send('delete', path);
        expect([response.status, response.text]).toEqual([${route.status}, '']);
        expect(await send('delete', path)).toBeError('NOT_FOUND');
      });`,
    ];
  }
}
