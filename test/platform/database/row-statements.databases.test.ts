import type { Type } from '@nestjs/common';
import { InjectDataSource, InjectRepository } from '@nestjs/typeorm';
import {
  AfterLoad,
  BeforeInsert,
  Column,
  CreateDateColumn,
  type DataSource,
  DeleteDateColumn,
  Entity,
  ManyToOne,
  PrimaryColumn,
  PrimaryGeneratedColumn,
  Repository,
  TableInheritance,
  UpdateDateColumn,
  VersionColumn,
  VirtualColumn,
} from 'typeorm';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
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
import { startApp, useApp } from '../support/app.js';
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
  it('joins a transaction through the repository of its manager', async () => {
    let id = 0;
    const transaction = app.dataSource.transaction(async (manager) => {
      ({ id } = await insertReturning(manager.getRepository(CageEntity), newCage()));
      throw new Error('rejected');
    });
    await expect(transaction).rejects.toThrow('rejected');
    expect(id).toBeGreaterThan(0);
    expect(await cages.findOneBy({ id })).toBeNull();
  });

  it('rejects a row with a property that has no column', async () => {
    const row = { ...newCage(), tags: ['brown'] };
    await expect(insertReturning(cages, row)).rejects.toThrow(TypeError);
    const resource = app.app.get(ResourceKit).resource(cages, { toBody: (cage) => cage });
    await expect(resource.create(row)).rejects.toThrow('CageEntity has no property tags');
    expect(await cages.findOneBy({ label: row.label })).toBeNull();
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
  it('finds a row without a value by null', async () => {
    const { id } = await cages.save(newCage());
    expect(await selectOne(cages, { id, categoryId: null })).toMatchObject({ id });
    expect(await selectOne(cages, { id, weight: null })).toBeUndefined();
  });

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

  it.each([{}, { id: undefined }, { id: 1, room: undefined }])(
    'rejects criteria that would select other rows: %p',
    async (criteria) => {
      const update = updateReturning(cages, criteria, { weight: 1 });
      await expect(update).rejects.toThrow('lacks criteria');
    },
  );

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

class Address {
  @Column('varchar', { nullable: true }) street!: string;
}

@Entity('shelters')
class EmbeddingEntity {
  @IdColumn('pk_shelters') id!: number;
  @Column(() => Address) address!: Address;
}

@Entity('toys')
class GeneratingEntity {
  @IdColumn('pk_toys') id!: number;
  @Column('varchar', { generated: 'uuid' }) code!: string;
}

@Entity('huts')
class HutEntity {
  @PrimaryGeneratedColumn('uuid') id!: string;
  @VersionColumn() lockVersion!: number;
  @Column('varchar', { nullable: true, default: 'red' }) color!: string | null;
}

@Entity('beds')
class BedEntity {
  @PrimaryColumn('varchar') code!: string;
  @VersionColumn({ name: 'lock_version' }) version!: number;
}

@Entity('rugs')
class RugEntity {
  @PrimaryGeneratedColumn({ name: 'rug_id' }) id!: number;
  @PrimaryColumn('integer') room!: number;
}

@Entity('pets')
class RelatedEntity {
  @IdColumn('pk_pets') id!: number;
  @ManyToOne(() => CategoryEntity) category!: CategoryEntity;
}

@Entity('birds', { orderBy: { name: 'ASC' } })
@TableInheritance({ column: { type: 'varchar', name: 'kind' } })
class BirdEntity {
  @IdColumn('pk_birds') id!: number;
  @Column({ type: 'varchar', select: false }) name!: string;
  @Column({ type: 'varchar', insert: false, nullable: true }) color!: string | null;
  @Column({ type: 'varchar', update: false }) ring!: string;
  @VirtualColumn({ query: () => '1' }) size!: number;
  @CreateDateColumn() createdAt!: Date;
  @UpdateDateColumn() changedAt!: Date;
  @DeleteDateColumn() deletedAt!: Date | null;
  @ManyToOne(() => CategoryEntity, { eager: true }) category!: CategoryEntity;
  @BeforeInsert() hash(): void {}
  @AfterLoad() decrypt(): void {}
}

/** As Nest documents subscribers. */
class Audit {
  constructor(@InjectDataSource() dataSource: DataSource) {
    dataSource.subscribers.push(this);
  }
  listenTo = () => CategoryEntity;
  afterInsert(): void {}
}
class Trace extends Audit {
  override listenTo = undefined as never;
}
class QueryLog extends Audit {
  override afterInsert = undefined as never;
  beforeQuery(): void {}
}

function createFeature(provider: Type, entities: Type<object>[] = []): Type {
  const tag = { name: 'tests', description: 'Operations of this test.' };
  @Feature({ tag, entities, providers: [provider] })
  class TestModule {}
  return TestModule;
}

/** A feature with a resource of the entity. */
function createResource(entity: Type<object>): Type {
  class Service {
    constructor(@InjectRepository(entity) repository: Repository<object>, kit: ResourceKit) {
      kit.resource(repository, { toBody: (row) => row });
    }
  }
  // What swc emits for a decorated class.
  Reflect.defineMetadata('design:paramtypes', [Repository, ResourceKit], Service);
  return createFeature(Service, [entity]);
}

async function start(feature: Type): Promise<void> {
  const service = await startApp({ features: [CategoriesModule, feature] });
  await service.stop();
}

describe('the resource kit', () => {
  it.each([
    ['embedded', EmbeddingEntity, 'EmbeddingEntity.address.street'],
    ['generated', GeneratingEntity, 'GeneratingEntity.code'],
    ['declared by a relation', RelatedEntity, 'RelatedEntity.category.id'],
  ])('fails startup if it would not write a column that is %s', async (_kind, entity, name) => {
    await expect(start(createResource(entity))).rejects.toThrow(
      `The resource kit does not support the column of ${name}: declare a property`,
    );
  });

  it.each<[Type<object>, string[]]>([
    [HutEntity, ['the id', 'the version', 'the default']],
    [BedEntity, ['the id', 'the version']],
    [RugEntity, ['the id']],
  ])('fails startup if it could not store or find rows of %p', async (entity, parts) => {
    const error = await start(createResource(entity)).catch(String);
    const found = String(error).match(/(?<=does not support )the \w+/g);
    expect(found).toEqual(parts);
  });

  it('fails startup with a sentence for each feature of TypeORM that it would ignore', async () => {
    const ignored = [
      'select: false of BirdEntity.name: leave the property out of responses.',
      'insert: false of BirdEntity.color: leave the property out of new rows.',
      'update: false of BirdEntity.ring: leave the property out of changes.',
      '@VirtualColumn of BirdEntity.size: compute the value for the response.',
      'insert: false of BirdEntity.size: leave the property out of new rows.',
      'update: false of BirdEntity.size: leave the property out of changes.',
      '@CreateDateColumn of BirdEntity.createdAt: declare a @Column, and set it.',
      '@UpdateDateColumn of BirdEntity.changedAt: declare a @Column, and set it.',
      '@DeleteDateColumn of BirdEntity.deletedAt: declare a nullable @Column, and filter by null.',
      'the listener BirdEntity.hash: call it in the service.',
      'the listener BirdEntity.decrypt: call it in the service.',
      'eager: true of BirdEntity.category: read the relation in the service.',
      '@TableInheritance of BirdEntity: give each entity a table.',
      'orderBy of BirdEntity: lists have the order of the ids.',
    ];
    await expect(start(createResource(BirdEntity))).rejects.toThrow(
      ignored.map((each) => `The resource kit does not support ${each}`).join('\n'),
    );
  });

  it('fails startup if a subscriber listens to one of its entities, but not to queries', async () => {
    const sentence = 'afterInsert for CategoryEntity: call it in the service.';
    for (const subscriber of [Audit, Trace])
      await expect(start(createFeature(subscriber))).rejects.toThrow(
        `The resource kit does not support ${subscriber.name}.${sentence}`,
      );
    await expect(start(createFeature(QueryLog))).resolves.toBeUndefined();
  });
});
