import {
  Column,
  Entity,
  ForeignKey,
  type MigrationInterface,
  PrimaryColumn,
  type QueryRunner,
  type Repository,
  Table,
} from 'typeorm';
import { CategoryEntity } from '../src/modules/categories/category.entity.js';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import type { CachedList } from '../src/platform/database/lists/cached-list.js';
import {
  bigintTransformer,
  IdColumn,
  idColumn,
  versionColumn,
  VersionColumn,
} from '../src/platform/database/statements/columns.js';
import { toConstraintError } from '../src/platform/database/statements/constraint-error.js';
import { isForeignKeyViolation } from '../src/platform/database/connection/driver-errors.js';
import { ResourceKit } from '../src/platform/resource/resource-kit.js';
import { LinkColumn } from '../src/platform/database/statements/link-column.js';
import {
  deleteReturning,
  insertReturning,
  modifyReturning,
  updateReturning,
} from '../src/platform/resource/returning.js';
import {
  addRevisionTrigger,
  dropRevisionTrigger,
} from '../src/platform/database/lists/revision-trigger.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { startApp, type TestApp } from './support/app.js';
import { insertRow } from './support/fixtures.js';
import { collectRows } from './support/queries.js';

const MISSING_ID = Number.MAX_SAFE_INTEGER;

@Entity('shops')
class ShopEntity {
  @IdColumn('pk_shops')
  id!: number;

  @Column('varchar')
  name!: string;

  @LinkColumn('shop_categories', { owner: 'shop_id', item: 'category_id' })
  categoryIds!: number[];

  @LinkColumn('shop_partners', { owner: 'shop_id', item: 'partner_id' })
  partnerIds!: number[];

  @VersionColumn()
  version!: number;
}

@Entity('shop_categories')
class ShopCategoryEntity {
  @ForeignKey('shops', { name: 'fk_shop_categories_shop_id', onDelete: 'CASCADE' })
  @PrimaryColumn('bigint', { name: 'shop_id', transformer: bigintTransformer })
  shopId!: number;

  @ForeignKey('categories', { name: 'fk_shop_categories_category_id' })
  @PrimaryColumn('bigint', { name: 'category_id', transformer: bigintTransformer })
  categoryId!: number;
}

/** Links rows of one table. */
@Entity('shop_partners')
class ShopPartnerEntity {
  @ForeignKey('shops', { name: 'fk_shop_partners_shop_id', onDelete: 'CASCADE' })
  @PrimaryColumn('bigint', { name: 'shop_id', transformer: bigintTransformer })
  shopId!: number;

  @ForeignKey('shops', { name: 'fk_shop_partners_partner_id' })
  @PrimaryColumn('bigint', { name: 'partner_id', transformer: bigintTransformer })
  partnerId!: number;
}

class CreateShops1900000000000 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'shops',
        columns: [
          idColumn(queryRunner, 'pk_shops'),
          { name: 'name', type: 'varchar' },
          versionColumn,
        ],
      }),
    );
    await addRevisionTrigger(queryRunner, 'shops');
    for (const [table, item, referencedTableName] of [
      ['shop_categories', 'category_id', 'categories'],
      ['shop_partners', 'partner_id', 'shops'],
    ] as const) {
      const referencedColumnNames = ['id'];
      await queryRunner.createTable(
        new Table({
          name: table,
          columns: [
            { name: 'shop_id', type: 'bigint', isPrimary: true },
            { name: item, type: 'bigint', isPrimary: true },
          ],
          foreignKeys: [
            {
              columnNames: ['shop_id'],
              referencedTableName: 'shops',
              referencedColumnNames,
              onDelete: 'CASCADE',
            },
            { columnNames: [item], referencedTableName, referencedColumnNames },
          ],
        }),
      );
    }
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropTable('shop_partners');
    await queryRunner.dropTable('shop_categories');
    await dropRevisionTrigger(queryRunner, 'shops');
    await queryRunner.dropTable('shops');
  }
}

@Feature({
  tag: { name: 'shops', description: 'For the tests' },
  entities: [ShopEntity, ShopCategoryEntity, ShopPartnerEntity],
  migrations: [CreateShops1900000000000],
  controllers: [],
  providers: [],
})
class ShopsModule {}

let app: TestApp;
let shops: Repository<ShopEntity>;
let list: CachedList<ShopEntity, ShopEntity[]>;
beforeAll(async () => {
  app = await startApp({ features: [CategoriesModule, ShopsModule] });
  shops = app.dataSource.getRepository(ShopEntity);
  list = app.app.get(ResourceKit).cachedList(shops, collectRows);
});
afterAll(() => app.stop());

const createCategory = (): Promise<number> => insertRow(app.dataSource, 'categories');
const insertShop = (categoryIds: number[], partnerIds: number[] = []): Promise<ShopEntity> =>
  insertReturning(shops, { name: 'shop', categoryIds, partnerIds });
const countLinks = (shopId: number): Promise<number> =>
  app.dataSource.getRepository(ShopCategoryEntity).countBy({ shopId });

describe('LinkColumn', () => {
  it('stores each id once and returns them in ascending order, from every read', async () => {
    const [first, second] = [await createCategory(), await createCategory()];
    const partner = await insertShop([]);
    const shop = await insertShop([second, first, second], [partner.id]);
    expect(shop).toEqual({
      id: expect.any(Number),
      version: 1,
      name: 'shop',
      categoryIds: [first, second],
      partnerIds: [partner.id],
    });
    expect(await shops.findOneBy({ id: shop.id })).toEqual(shop);
    expect(await list.getPage({ limit: 1, after: shop.id - 1 })).toEqual([shop]);
    expect(await list.getPage({ limit: 50 })).toContainEqual(shop);
  });

  it('replaces the ids as a change of the row, which cached lists and the version show', async () => {
    const [first, second] = [await createCategory(), await createCategory()];
    const { id } = await insertShop([first]);
    await list.getPage({ limit: 50 });
    const changed = await updateReturning(shops, { id }, { categoryIds: [second] });
    expect(changed).toEqual({
      id,
      version: 2,
      name: 'shop',
      categoryIds: [second],
      partnerIds: [],
    });
    expect(await list.getPage({ limit: 50 })).toContainEqual(changed);
    const modified = await modifyReturning(shops, { id }, ({ categoryIds }) => ({
      categoryIds: [...categoryIds, first],
    }));
    expect(modified).toMatchObject({ version: 3, categoryIds: [first, second] });
    const emptied = await updateReturning(shops, { id, version: 3 }, { categoryIds: [] });
    expect(emptied).toMatchObject({ version: 4, categoryIds: [] });
  });

  it('leaves the ids unchanged that are not given, and those of a row that does not meet the criteria', async () => {
    const shop = await insertShop([await createCategory()]);
    const { id } = shop;
    expect(await updateReturning(shops, { id }, {})).toEqual(shop);
    const changed = await updateReturning(shops, { id }, { partnerIds: [id] });
    expect(changed).toEqual(Object.assign(shop, { version: 2, partnerIds: [id] }));
    const missed = await updateReturning(shops, { id, version: 1 }, { categoryIds: [] });
    expect(missed).toBeUndefined();
    expect(await shops.findOneBy({ id })).toEqual(changed);
  });

  it('stores nothing if an id does not exist, and names the property', async () => {
    const [known, other] = [await createCategory(), await createCategory()];
    const shop = await insertShop([known]);
    const row = { name: 'other', categoryIds: [other, MISSING_ID], partnerIds: [shop.id] };
    const count = await shops.count();
    for (const write of [
      () => insertReturning(shops, row),
      () => updateReturning(shops, { id: shop.id }, row),
    ]) {
      const error: unknown = await write().catch((reason: unknown) => reason);
      expect(isForeignKeyViolation(error)).toBe(true);
      expect(await toConstraintError(error, shops, row)).toMatchObject({
        code: 'VALIDATION_FAILED',
        message: 'categoryIds must reference an existing category.',
      });
    }
    expect(await shops.count()).toBe(count);
    expect(await shops.findOneBy({ id: shop.id })).toEqual(shop);
  });

  it('removes the links of a deleted row, and protects the rows that they reference', async () => {
    const categoryId = await createCategory();
    const { id } = await insertShop([categoryId]);
    const error: unknown = await app.dataSource
      .getRepository(CategoryEntity)
      .delete(categoryId)
      .catch((reason: unknown) => reason);
    // Which the services convert to 409 RESOURCE_IN_USE.
    expect(isForeignKeyViolation(error)).toBe(true);
    expect(await countLinks(id)).toBe(1);
    expect(await deleteReturning(shops, { id })).toMatchObject({ id });
    expect(await countLinks(id)).toBe(0);
  });

  it('gives concurrent changes of a row an order, and each of them the ids of its own version', async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, createCategory));
    const { id } = await insertShop([]);
    const results = await Promise.all(
      ids.map((categoryId, index) =>
        index % 2 === 0
          ? updateReturning(shops, { id }, { categoryIds: [categoryId] })
          : updateReturning(shops, { id }, { partnerIds: [id] }),
      ),
    );
    const ordered = results.map((row) => row!).toSorted((a, b) => a.version - b.version);
    expect(ordered.map(({ version }) => version)).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
    let current: number[] = [];
    for (const row of ordered) {
      const index = results.indexOf(row);
      if (index % 2 === 0) current = [ids[index]!];
      expect(row.categoryIds).toEqual(current);
    }
    expect(await shops.findOneBy({ id })).toEqual(ordered.at(-1));
  });
});
