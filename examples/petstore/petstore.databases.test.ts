/** Tests examples/petstore, the example that teams copy, with many concurrent requests. */
import { PetsModule } from './pets/pets.module.js';
import { StoreModule } from './store/store.module.js';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import {
  describeResource,
  dumpSchema,
  onEachConnection,
  RetryingClient,
  startApp,
} from '../../test/platform/index.js';

const FEATURES = [CategoriesModule, PetsModule, StoreModule];

interface Pet {
  readonly id: number;
  readonly name: string;
  readonly photoUrls: readonly string[];
  readonly tags: readonly { readonly id: number; readonly name: string }[];
}

const app = await startApp({ features: FEATURES });
const client = new RetryingClient(app.url, app.key);
let categories: { readonly id: number; readonly name: string }[];
beforeAll(async () => {
  const requests = ['dog', 'cat'].map((name) => request(201, 'POST', '/categories', { name }));
  categories = (await Promise.all(requests)) as typeof categories;
});
afterAll(async () => {
  client.close();
  await app.stop();
});

/** @returns the body of the response, which must have the status */
async function request<T = unknown>(
  status: number,
  method: string,
  path: string,
  body?: object,
): Promise<T> {
  const response = await client.send(method, path, body);
  expect([method, path, response.status, response.text]).toMatchObject([method, path, status, {}]);
  return response.json<T>();
}

/** Returns a body in which the other properties can be derived from the name. */
const toBody = (name: string) => ({
  name,
  photoUrls: [`https://example.com/${name}`],
  tags: [{ name: `${name}.a` }, { name: `${name}.b` }],
});

/** Expects that the properties of each pet belong together: see {@link toBody}. */
function expectWhole(pets: readonly Pet[]): void {
  for (const { name, photoUrls, tags } of pets) {
    const names = tags.map((tag) => ({ name: tag.name }));
    expect({ name, photoUrls, tags: names }).toEqual(toBody(name));
  }
}

/** Returns all pets, page by page. */
async function readPets(): Promise<Pet[]> {
  const pets: Pet[] = [];
  for (let query = '?limit=50'; ;) {
    const response = await client.send('GET', `/pets${query}`);
    pets.push(...response.json<Pet[]>());
    const link = response.headers.link as string | undefined;
    if (link === undefined) return pets;
    query = /^<(.*)>; rel="next"$/.exec(link)![1]!;
  }
}

describe('/v1/pets of the example', () => {
  it('stores and counts each pet of 64 concurrent requests once, with its own tags', async () => {
    const created = await onEachConnection(async (number) => {
      const body = {
        ...toBody(`pet-${number}`),
        category: { id: categories[number % 2]!.id },
        status: ['available', 'pending', 'sold'][number % 3]!,
      };
      const response = await client.send('POST', '/pets', body);
      const pet = response.json<Pet>();
      expect([response.status, response.headers.location]).toEqual([201, `pets/${pet.id}`]);
      expect(pet).toEqual({
        ...body,
        id: expect.any(Number),
        category: categories[number % 2],
        tags: body.tags.map(({ name }) => ({ id: expect.any(Number), name })),
      });
      expect(await request(200, 'GET', `/pets/${pet.id}`)).toEqual(pet);
      const tag = pet.tags[1]!.name;
      expect(await request(200, 'GET', `/pets/findByTags?tags=${tag}`)).toContainEqual(pet);
      expectWhole(await request(200, 'GET', `/pets/findByStatus?status=${body.status}&limit=100`));
      return pet;
    });
    const pets = await readPets();
    // A create request that got 503 may have been executed.
    const repeated = [...client.unavailable.values()].reduce((sum, count) => sum + count, 0);
    expect(pets.length).toBeLessThanOrEqual(created.length + repeated);
    expect(pets).toEqual(expect.arrayContaining(created));
    const inventory = await request<Record<string, number>>(200, 'GET', '/store/inventory');
    expect(Object.values(inventory).reduce((sum, count) => sum + count, 0)).toBe(pets.length);
  });

  it('keeps the changes of concurrent PATCH requests, and never mixes them', async () => {
    const { id } = await request<Pet>(201, 'POST', '/pets', toBody('patched'));
    await onEachConnection(async (number) => {
      const body = toBody(`patched-by-${number}`);
      expectWhole([await request<Pet>(200, 'PATCH', `/pets/${id}`, body)]);
      expectWhole(await request(200, 'GET', `/pets?after=${id - 1}`));
    });
    const { name, ...parts } = toBody('final');
    const patches = [{ name }, parts, { status: 'sold' }, { category: { id: categories[1]!.id } }];
    await onEachConnection((number) => request(200, 'PATCH', `/pets/${id}`, patches[number % 4]));
    expect(await request(200, 'GET', `/pets/${id}`)).toMatchObject({
      ...toBody('final'),
      status: 'sold',
      category: categories[1],
    });
  });

  it('replaces and deletes pets as a whole, and rejects an unknown category with 400', async () => {
    const body = { ...toBody('replaced'), category: { id: categories[0]!.id } };
    const { id } = await request<Pet>(201, 'POST', '/pets', body);
    const replacement = { name: 'new', photoUrls: [] };
    const replaced = { id, ...replacement, tags: [], status: 'available' };
    expect(await request(200, 'PUT', `/pets/${id}`, replacement)).toEqual(replaced);
    for (const [method, path] of [['POST', '/pets'] as const, ['PATCH', `/pets/${id}`] as const]) {
      const rejected = { ...toBody('rejected'), category: { id: 999_999 } };
      const message = 'category.id must reference an existing resource.';
      expect(await client.send(method, path, rejected)).toBeError('VALIDATION_FAILED', message);
    }
    expect(await request(200, 'GET', `/pets/${id}`)).toEqual(replaced);
    expect(await request(200, 'GET', '/pets/findByTags?tags=rejected.a')).toEqual([]);
    expect((await client.send('DELETE', `/pets/${id}`)).status).toBe(204);
    expect(await client.send('GET', `/pets/${id}`)).toBeError('NOT_FOUND');
  });

  it('stores an image of a pet, and returns its bytes', async () => {
    const { id } = await request<Pet>(201, 'POST', '/pets', toBody('photographed'));
    const type = { 'content-type': 'application/octet-stream' };
    const headers = { authorization: `Bearer ${app.key}`, ...type };
    const content = Buffer.alloc(200_000, 'image');
    const response = await client.send('POST', `/pets/${id}/uploadImage`, content, headers);
    const image = response.json<{ id: number }>();
    expect(image).toEqual({ id: expect.any(Number), petId: id, size: content.length });
    const { body } = await client.send('GET', `/pets/${id}/images/${image.id}`);
    expect(body.equals(content)).toBe(true);
  });
});

describe('POST /v1/store/orders of the example', () => {
  it('either keeps the pet of an order from being deleted, or rejects the order', async () => {
    await onEachConnection(async (number) => {
      const { id } = await request<Pet>(201, 'POST', '/pets', toBody(`ordered-${number}`));
      const order = { petId: id, quantity: 1 };
      const [ordered, deleted] = await Promise.all([
        client.send('POST', '/store/orders', order),
        client.send('DELETE', `/pets/${id}`),
      ]);
      // 404 if the first attempt got 503, but was executed.
      expect(['201 409', '400 204', '400 404']).toContain(`${ordered.status} ${deleted.status}`);
      type Orders = { id: number; petId: number }[];
      const orders = await request<Orders>(200, 'GET', '/store/orders?limit=100');
      const own = orders.filter(({ petId }) => petId === id).map((each) => each.id);
      const acknowledged = ordered.status === 201 ? [ordered.json<{ id: number }>().id] : [];
      expect(own).toEqual(expect.arrayContaining(acknowledged));
      // A create request that got 503 may have been executed.
      const repeated = client.unavailable.get(JSON.stringify(order)) ?? 0;
      expect(own.length - acknowledged.length).toBeLessThanOrEqual(repeated);
    });
  });
});

describe('examples/petstore', () => {
  it('restores the former schema when its migrations are reverted', async () => {
    const service = await startApp({ features: [CategoriesModule] });
    const before = await dumpSchema(service.dataSource);
    await service.stop();
    const example = await startApp({ features: FEATURES });
    for (let count = 0; count < 2; count++) await example.dataSource.revertMigration();
    expect(await dumpSchema(example.dataSource)).toEqual(before);
    await example.stop();
  });
});

const toOrder = async (quantity: number, status: string, complete: boolean) => {
  const { id: petId } = await request<Pet>(201, 'POST', '/pets', toBody('ordered'));
  return { petId, quantity, shipDate: `2026-11-0${quantity}T12:00:00.000Z`, status, complete };
};
await describeResource(app, '/store/orders', {
  create: () => toOrder(2, 'approved', true),
  other: () => toOrder(3, 'delivered', false),
  invalid: { petId: [Number.MAX_SAFE_INTEGER, null], quantity: [0, 1001], status: ['lost'] },
});
