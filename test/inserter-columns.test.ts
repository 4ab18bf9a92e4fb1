import type { Type } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Column, Entity, ForeignKey, ManyToOne, Repository } from 'typeorm';
import { CategoryEntity } from '../src/modules/categories/category.entity.js';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { IdColumn } from '../src/platform/database/statements/columns.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { ResourceKit } from '../src/platform/resource/resource-kit.js';
import { insertReturning } from '../src/platform/resource/returning.js';
import { startApp } from './support/app.js';

class Address {
  @Column('varchar') street!: string;
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
  @ManyToOne(() => CategoryEntity, { nullable: false }) category!: CategoryEntity;
}

@Entity('cages')
class DeferringEntity {
  @IdColumn('pk_cages') id!: number;
  @Column('bigint')
  @ForeignKey(() => CategoryEntity, { deferrable: 'INITIALLY DEFERRED' })
  categoryId!: number;
}

/** A feature with an inserter of the entity. */
function createFeature(entity: Type<object>): Type {
  class Service {
    constructor(@InjectRepository(entity) repository: Repository<object>, kit: ResourceKit) {
      kit.batchInserter(repository, (row) => row);
    }
  }
  // What swc emits for a decorated class.
  Reflect.defineMetadata('design:paramtypes', [Repository, ResourceKit], Service);

  @Feature({
    tag: { name: 'tests', description: 'Operations of this test.' },
    entities: [entity],
    providers: [Service],
  })
  class TestModule {}
  return TestModule;
}

describe('an inserter', () => {
  it.each([
    ['embedded', EmbeddingEntity, 'EmbeddingEntity.address.street'],
    ['generated', GeneratingEntity, 'GeneratingEntity.code'],
    ['declared by a relation', RelatedEntity, 'RelatedEntity.category.id'],
  ])('fails at startup if a column is not written: one that is %s', async (_kind, entity, name) => {
    const features = [CategoriesModule, createFeature(entity)];
    await expect(startApp({ features })).rejects.toThrow(
      `An inserter does not store ${name}: declare a property`,
    );
  });

  it('fails at startup if a constraint is checked at COMMIT, when it would reject a whole batch', async () => {
    const features = [CategoriesModule, createFeature(DeferringEntity)];
    await expect(startApp({ features })).rejects.toThrow(
      'An inserter does not support the deferred constraints of DeferringEntity',
    );
  });

  it('rejects a row with a property that has no column', async () => {
    const app = await startApp();
    const repository = app.dataSource.getRepository(CategoryEntity);
    const inserter = app.app.get(ResourceKit).batchInserter(repository, (row) => row);
    const row = { name: 'dog', description: null, tags: ['brown'] };
    await expect(inserter.insert(row)).rejects.toThrow('CategoryEntity has no property tags');
    await expect(insertReturning(repository, row)).rejects.toThrow(TypeError);
    expect(await app.categories.getNames()).toEqual([]);
    await app.stop();
  });
});
