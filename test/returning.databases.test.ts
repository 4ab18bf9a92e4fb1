import type { Repository } from 'typeorm';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import {
  deleteReturning,
  insertReturning,
  modifyReturning,
  updateReturning,
} from '../src/platform/resource/returning.js';
import { startApp, type TestApp } from './support/app.js';
import { CageEntity, CagesModule } from './support/cages.module.js';
import { ToyEntity, ToysModule } from './support/toys.module.js';

let app: TestApp;
let toys: Repository<ToyEntity>;
beforeAll(async () => {
  app = await startApp({ features: [CategoriesModule, ToysModule, CagesModule] });
  toys = app.dataSource.getRepository(ToyEntity);
});
afterAll(() => app.stop());

const TOY = { name: 'ball', size: 'small', pieces: 1, fragile: false };

const insertToy = (): Promise<ToyEntity> =>
  toys.save({ ...TOY, weight: 1.5, madeAt: new Date(1000), categoryId: null });

describe('insertReturning', () => {
  it('returns the inserted row with its id, with values of every type', async () => {
    const row = { ...TOY, fragile: true, weight: 1.5, madeAt: new Date(1000) };
    const inserted = await insertReturning(toys, row);
    expect(inserted).toEqual({ ...row, categoryId: null, id: expect.any(Number) });
    expect(await toys.findOneBy({ id: inserted.id })).toEqual(inserted);
  });

  it('is part of a transaction through the repository of its manager', async () => {
    let id = 0;
    const transaction = app.dataSource.transaction(async (manager) => {
      ({ id } = await insertReturning(manager.getRepository(ToyEntity), TOY));
      throw new Error('rejected');
    });
    await expect(transaction).rejects.toThrow('rejected');
    expect(id).toBeGreaterThan(0);
    expect(await toys.findOneBy({ id })).toBeNull();
  });
});

describe('updateReturning', () => {
  it('returns the updated row, with values of every type', async () => {
    const { id } = await insertToy();
    const { id: categoryId } = (await app.categories.create('dog')).json<{ id: number }>();
    const changes = { pieces: 7, fragile: true, weight: null, madeAt: new Date(2000), categoryId };
    const updated = await updateReturning(toys, { id }, changes);
    expect(updated).toEqual({ ...TOY, ...changes, id });
    expect(await toys.findOneBy({ id })).toEqual(updated);
  });

  it('leaves a property unchanged that is undefined, and reads the row if all are', async () => {
    const toy = await insertToy();
    const updated = await updateReturning(toys, { id: toy.id }, { pieces: 3, name: undefined });
    expect(updated).toMatchObject({ name: 'ball', pieces: 3 });
    expect(await updateReturning(toys, { id: toy.id }, { name: undefined })).toEqual(updated);
  });

  it('updates only a row that meets every criterion', async () => {
    const { id } = await insertToy();
    const update = (size: string[], pieces: number): Promise<ToyEntity | undefined> =>
      updateReturning(toys, { id, size }, { pieces });
    expect(await update(['small', 'large'], 2)).toMatchObject({ pieces: 2 });
    expect(await update(['large'], 3)).toBeUndefined();
    expect(await update([], 4)).toBeUndefined();
    expect(await toys.findOneBy({ id })).toMatchObject({ pieces: 2 });
  });

  it('rejects criteria without a value', async () => {
    await expect(updateReturning(toys, {}, { pieces: 1 })).rejects.toThrow(TypeError);
    const criteria = { id: undefined } as unknown as { id: number };
    await expect(updateReturning(toys, criteria, { pieces: 1 })).rejects.toThrow(TypeError);
  });
});

describe('modifyReturning', () => {
  const CAGE = { label: 'A1', room: 'attic', shelfPosition: 1, categoryId: null };

  it('loses none of the changes that concurrent requests make to the same row', async () => {
    const cages = app.dataSource.getRepository(CageEntity);
    const { id } = await cages.save({ ...CAGE });
    const rows = await Promise.all(
      Array.from({ length: 10 }, () =>
        modifyReturning(cages, { id }, ({ shelfPosition: n }) => ({ shelfPosition: n + 1 })),
      ),
    );
    const positions = rows.map((row) => row!.shelfPosition).toSorted((a, b) => a - b);
    expect(positions).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(await cages.findOneBy({ id })).toEqual({ ...CAGE, id, shelfPosition: 11, version: 11 });
  });

  it('changes nothing if no row meets the criteria, or getting the changes fails', async () => {
    const cages = app.dataSource.getRepository(CageEntity);
    const { id } = await cages.save({ ...CAGE, label: 'A2', shelfPosition: 20 });
    const changes = { room: 'cellar' };
    expect(await modifyReturning(cages, { id, version: 2 }, () => changes)).toBeUndefined();
    const failure = new Error('invalid');
    const fail = (): never => {
      throw failure;
    };
    await expect(modifyReturning(cages, { id }, fail)).rejects.toBe(failure);
    expect(await cages.findOneBy({ id })).toMatchObject({ room: 'attic', version: 1 });
  });
});

describe('deleteReturning', () => {
  it('deletes the row that meets the criteria and returns it', async () => {
    const { id } = await insertToy();
    expect(await deleteReturning(toys, { id, size: 'large' })).toBeUndefined();
    expect(await deleteReturning(toys, { id })).toMatchObject({ id, madeAt: new Date(1000) });
    expect(await deleteReturning(toys, { id })).toBeUndefined();
    expect(await toys.findOneBy({ id })).toBeNull();
  });
});

describe('concurrent PATCH requests', () => {
  it('each return the values that they have stored', async () => {
    const { id } = await insertToy();
    const patch = async (number: number): Promise<unknown> => {
      const changes = { name: `toy ${number}`, weight: number };
      const response = await app
        .http()
        .patch(`/v1/toys/${id}`)
        .auth(app.key, { type: 'bearer' })
        .send(changes);
      expect(response.body).toMatchObject({ id, ...changes });
      return response.status;
    };
    for (let round = 0; round < 5; round++) {
      const statuses = await Promise.all(Array.from({ length: 48 }, (_, index) => patch(index)));
      expect(new Set(statuses)).toEqual(new Set([200]));
    }
  });
});
