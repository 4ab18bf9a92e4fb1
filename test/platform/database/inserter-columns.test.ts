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
  Repository,
  TableInheritance,
  UpdateDateColumn,
  VirtualColumn,
} from 'typeorm';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { IdColumn } from '../../../src/platform/database/statements/columns.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { insertReturning } from '../../../src/platform/database/statements/row-statements.js';
import { startApp } from '../support/app.js';

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
  const app = await startApp({ features: [CategoriesModule, feature] });
  await app.stop();
}

describe('an inserter', () => {
  it.each([
    ['embedded', EmbeddingEntity, 'EmbeddingEntity.address.street'],
    ['generated', GeneratingEntity, 'GeneratingEntity.code'],
    ['declared by a relation', RelatedEntity, 'RelatedEntity.category.id'],
  ])('fails at startup if a column is not written: one that is %s', async (_kind, entity, name) => {
    await expect(start(createResource(entity))).rejects.toThrow(
      `The resource kit ignores the column of ${name}: declare a property`,
    );
  });

  it('rejects a row with a property that has no column', async () => {
    const app = await startApp();
    const repository = app.dataSource.getRepository(CategoryEntity);
    const resource = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
    const row = { name: 'dog', description: null, tags: ['brown'] };
    await expect(resource.create(row)).rejects.toThrow('CategoryEntity has no property tags');
    await expect(insertReturning(repository, row)).rejects.toThrow(TypeError);
    expect(await app.categories.getNames()).toEqual([]);
    await app.stop();
  });
});

describe('the resource kit', () => {
  it('fails at startup with a sentence for each feature of TypeORM that it would ignore', async () => {
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
      ignored.map((each) => `The resource kit ignores ${each}`).join('\n'),
    );
  });

  it('fails at startup if a subscriber listens to one of its entities, but not to queries', async () => {
    const sentence = 'afterInsert for CategoryEntity: call it in the service.';
    for (const subscriber of [Audit, Trace])
      await expect(start(createFeature(subscriber))).rejects.toThrow(
        `The resource kit ignores ${subscriber.name}.${sentence}`,
      );
    await expect(start(createFeature(QueryLog))).resolves.toBeUndefined();
  });
});
