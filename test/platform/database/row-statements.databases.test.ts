import { Column, Entity, type Repository } from 'typeorm';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import {
  insertReturning,
  selectOne,
  updateReturning,
} from '../../../src/platform/database/statements/row-statements.js';
import { DatabaseUnavailableError } from '../../../src/platform/database/connection/driver-errors.js';
import { requestContext } from '../../../src/platform/logging/logger.js';
import { IdColumn } from '../../../src/platform/database/statements/columns.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { useApp } from '../support/app.js';
import { CageEntity, CagesModule } from '../support/cages.module.js';
import { createTable } from '../support/create-table.js';
import { createKey } from '../support/fixtures.js';

const { jest } = import.meta;

/** A row with values that the database or the driver converts. */
@Entity('bills')
class BillEntity {
  @IdColumn('pk_bills') id!: number;
  @Column('decimal', { precision: 10, scale: 2 }) price!: string;
  @Column('date') day!: Date | string;
  @Column('simple-array') items!: string[];
}
@Feature({
  tag: { name: 'bills', description: 'Bills.' },
  entities: [BillEntity],
  migrations: [createTable(BillEntity, 1_796_000_000_090)],
})
class BillsModule {}

const app = useApp({ features: [CategoriesModule, CagesModule, BillsModule] });
let cages: Repository<CageEntity>;
beforeAll(async () => {
  cages = app.dataSource.getRepository(CageEntity);
});
afterEach(() => jest.restoreAllMocks());

let count = 0;
const newCage = () => ({
  label: `label ${++count}`,
  room: 'attic',
  shelfPosition: count,
  categoryId: null,
  weight: 1.5,
  locked: true,
  builtAt: '1970-01-01T00:00:01.000Z',
});

describe('insertReturning', () => {
  it('is part of a transaction through the repository of its manager', async () => {
    let id = 0;
    const transaction = app.dataSource.transaction(async (manager) => {
      ({ id } = await insertReturning(manager.getRepository(CageEntity), newCage()));
      throw new Error('rejected');
    });
    await expect(transaction).rejects.toThrow('rejected');
    expect(id).toBeGreaterThan(0);
    expect(await cages.findOneBy({ id })).toBeNull();
  });
});

describe('Resource.create', () => {
  it('returns values as they are read later, also those that the database converts', async () => {
    const repository = app.dataSource.getRepository(BillEntity);
    const bills = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
    const row = { price: '1.5', day: new Date(0), items: ['a', 'b,c'] };
    const { value } = createKey();
    const created = await bills.create(row, createKey(value));
    expect(created).toEqual(await bills.read({ id: created.id }));
    expect(await bills.create(row, createKey(value))).toEqual(created);
    const others = await Promise.all([1, 2].map(() => bills.create(row)));
    expect(others).toEqual(others.map(({ id }) => Object.assign({}, created, { id })));
  });
});

describe('selectOne', () => {
  it('finds no row by an integer beyond those of its column, or a fraction', async () => {
    const { id, shelfPosition } = await cages.save(newCage());
    const find = (position: number) => selectOne(cages, { id, shelfPosition: position });
    expect(await find(shelfPosition)).toMatchObject({ id });
    for (const position of [2 ** 31, Number.MAX_SAFE_INTEGER, -(2 ** 40), 1.5, NaN, 1e300])
      expect(await find(position)).toBeUndefined();
  });
});

describe('updateReturning', () => {
  it('leaves a property unchanged that is undefined, and reads the row if all are', async () => {
    const { id, label } = await cages.save(newCage());
    const updated = await updateReturning(cages, { id }, { room: 'x', label: undefined });
    expect(updated).toMatchObject({ label, room: 'x' });
    expect(await updateReturning(cages, { id }, { label: undefined })).toEqual(updated);
  });

  it('updates only a row that meets every criterion', async () => {
    const { id } = await cages.save(newCage());
    const update = (room: string[], weight: number): Promise<CageEntity | undefined> =>
      updateReturning(cages, { id, room }, { weight });
    expect(await update(['attic', 'cellar'], 2)).toMatchObject({ weight: 2 });
    expect(await update(['cellar'], 3)).toBeUndefined();
    expect(await update([], 4)).toBeUndefined();
    expect(await cages.findOneBy({ id })).toMatchObject({ weight: 2 });
  });

  it('sends nothing if the time of the request is over', async () => {
    const { id } = await cages.save(newCage());
    const outcome = requestContext.run({ id: 'a', databaseTimeLeft: 0 }, () =>
      updateReturning(cages, { id }, { weight: 0 }),
    );
    await expect(outcome).rejects.toThrow(DatabaseUnavailableError);
    expect(await cages.findOneBy({ id })).toMatchObject({ weight: 1.5 });
  });

  it('rejects criteria without a value', async () => {
    await expect(updateReturning(cages, {}, { weight: 1 })).rejects.toThrow(TypeError);
    const criteria = { id: undefined } as unknown as { id: number };
    await expect(updateReturning(cages, criteria, { weight: 1 })).rejects.toThrow(TypeError);
  });
});
