import type { Test } from 'supertest';
import { Column, Entity, JoinColumn, ManyToOne } from 'typeorm';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { Feature, IdColumn, toConstraintError } from '../../../src/platform/index.js';
import { useApp } from '../support/app.js';
import { describeOnPostgres } from '../support/databases.js';
import { type Cage, CageEntity, CagesController, CagesModule } from '../support/cages.module.js';

const MISSING_ID = Number.MAX_SAFE_INTEGER;

/** A cage with a relation instead of the column of the category. */
@Entity('cages')
class RelatedCageEntity {
  @IdColumn('pk_cages') id!: number;
  @Column('varchar') label!: string;
  @Column('varchar') room!: string;
  @Column('int', { name: 'shelf_position' }) shelfPosition!: number;
  @ManyToOne(() => CategoryEntity)
  @JoinColumn({ name: 'category_id' })
  category!: Pick<CategoryEntity, 'id'>;
}

@Feature({ tag: { name: 'cages', description: 'Cages.' }, entities: [RelatedCageEntity] })
class RelatedCagesModule {}

const app = useApp({ features: [CategoriesModule, CagesModule, RelatedCagesModule] });

let count = 0;
const newCage = (properties: object = {}): Omit<Cage, 'id'> => ({
  label: `label ${++count}`,
  room: 'attic',
  shelfPosition: count,
  ...properties,
});
const send = (method: 'post' | 'patch', path: string, body: object): Test =>
  app.http()[method](`/v1/cages${path}`).auth(app.key, { type: 'bearer' }).send(body);

async function createCage(properties?: object): Promise<Cage> {
  const response = await send('post', '', newCage(properties));
  expect(response.status).toBe(201);
  return response.body as Cage;
}

describe('POST and PATCH of a row that violates a constraint', () => {
  it.each([
    ['the unique property', ['label'], 'label'],
    ['all properties of a unique constraint', ['room', 'shelfPosition'], 'room and shelfPosition'],
  ] as const)('returns 409 and the names of %s', async (_label, properties, names) => {
    // The driver's message quotes the values, which may look like names.
    const cage = await createCage({ label: `${count} a)=(b "c", 'd': label, room` });
    const same = Object.fromEntries(properties.map((property) => [property, cage[property]]));
    const error = ['ALREADY_EXISTS', `Another resource has the same ${names}.`] as const;
    expect(await send('post', '', newCage(same))).toBeError(...error);
    const other = await createCage();
    expect(await send('patch', `/${other.id}`, same)).toBeError(...error);
  });

  it('returns 400 and the name of a reference to a missing row', async () => {
    const { id } = await createCage();
    const error = ['VALIDATION_FAILED', 'categoryId must reference an existing resource.'] as const;
    const invalid = { categoryId: MISSING_ID };
    expect(await send('post', '', newCage(invalid))).toBeError(...error);
    expect(await send('patch', `/${id}`, invalid)).toBeError(...error);
  });

  it('stores the other rows of its batch', async () => {
    const { label } = await createCage();
    const cages = app.app.get(CagesController);
    const changes = [{}, { label }, {}, { categoryId: MISSING_ID }, {}];
    const bodies = changes.map(newCage);
    const results = await Promise.allSettled(bodies.map((body) => cages.createCage(body)));
    expect(results).toMatchObject([
      { value: { body: bodies[0] } },
      { reason: { code: 'ALREADY_EXISTS', message: 'Another resource has the same label.' } },
      { value: { body: bodies[2] } },
      { reason: { code: 'VALIDATION_FAILED' } },
      { value: { body: bodies[4] } },
    ]);
  });

  it('returns 409 if the constraint is on an expression', async () => {
    await app.dataSource.query('CREATE UNIQUE INDEX "uq_lower" ON "cages" (lower("label"))');
    const { label } = await createCage();
    expect(await send('post', '', newCage({ label: label.toUpperCase() }))).toBeError(
      'ALREADY_EXISTS',
      'Another resource has the same values.',
    );
    await app.dataSource.query('DROP INDEX "uq_lower"');
  });
});

describeOnPostgres('an id that the database assigns again', () => {
  it('is 500, because the client cannot correct it', async () => {
    await createCage();
    await app.dataSource.query('ALTER SEQUENCE "cages_id_seq" RESTART');
    expect(await send('post', '', newCage())).toBeError('INTERNAL_ERROR');
    await app.dataSource.query(`SELECT setval('cages_id_seq', 1000)`);
  });
});

describeOnPostgres('a value that does not fit its column', () => {
  it.each([
    ['a text', { label: 'é'.repeat(101) }, 'label'],
    ['a text beside a large id', { label: 'é'.repeat(101), categoryId: 2 ** 31 }, 'label'],
    ['an integer', { shelfPosition: 2 ** 31 }, 'shelfPosition'],
    ['a fraction', { shelfPosition: 0.5 }, 'shelfPosition'],
    ['several', { label: 'a'.repeat(101), room: 'a'.repeat(21) }, 'label and room'],
  ])(
    'returns 400 and the name of %s, also in a batch, a replacement and a patch',
    async (_label, wide, names) => {
      // A DTO that allows more than the column; validation is before the handler.
      const cages = app.app.get(CagesController);
      const { id } = await createCage();
      const body = newCage(wide);
      const results = await Promise.allSettled([
        cages.createCage(newCage()),
        cages.createCage(body),
        cages.createCage(newCage()),
        cages.replaceCage(id, {}, body),
        cages.updateCage(id, {}, wide),
      ]);
      const message = `The database has no room for the value of ${names}.`;
      const rejected = { reason: { code: 'VALIDATION_FAILED', message } };
      const stored = { status: 'fulfilled' };
      expect(results).toMatchObject([stored, rejected, stored, rejected, rejected]);
    },
  );
});

describe('toConstraintError', () => {
  it('names the paths of properties that the body has elsewhere', async () => {
    const { label } = await createCage();
    const cages = app.dataSource.getRepository(CageEntity);
    const paths = { label: 'sign.text', categoryId: 'category.id' };
    const insert = async (row: Omit<Cage, 'id'>): Promise<unknown> =>
      cages.insert(row).catch((error: unknown) => toConstraintError(error, cages, row, paths));
    expect(await insert(newCage({ label }))).toMatchObject({
      code: 'ALREADY_EXISTS',
      message: 'Another resource has the same sign.text.',
    });
    expect(await insert(newCage({ categoryId: MISSING_ID }))).toMatchObject({
      code: 'VALIDATION_FAILED',
      message: 'category.id must reference an existing resource.',
    });
  });

  it('takes the id of a reference out of the entity that it refers to', async () => {
    const cages = app.dataSource.getRepository(RelatedCageEntity);
    const row = { ...newCage(), category: { id: MISSING_ID } };
    const error: unknown = await cages.insert(row).catch((reason: unknown) => reason);
    expect(await toConstraintError(error, cages, row)).toMatchObject({
      message: 'category must reference an existing resource.',
    });
  });

  it('names all references if those that were missing exist by now', async () => {
    const cages = app.dataSource.getRepository(CageEntity);
    const row = newCage({ categoryId: MISSING_ID });
    const error: unknown = await cages.insert(row).catch((reason: unknown) => reason);
    const { id } = (await app.categories.create('dog')).json<{ id: number }>();
    expect(await toConstraintError(error, cages, { ...row, categoryId: id })).toMatchObject({
      message: 'categoryId must reference an existing resource.',
    });
  });
});
