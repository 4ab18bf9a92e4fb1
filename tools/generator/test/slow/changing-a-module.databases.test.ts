/** Changes a generated module whose table has rows, as docs/adding-a-module.md shows, and what it does not show. */
import { readdir, readFile } from 'node:fs/promises';
import { FEATURES } from '../../../../src/features.js';
import { PRODUCT } from '../../../../src/product.js';
import { createDataSource } from '../../../../src/platform/application/data-source.js';
import { createDatabase, type TestDatabase } from '../../../../test/platform/support/app.js';
import { DATABASE } from '../../../../test/platform/support/databases.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

const FOLDER = 'src/modules/pets';

let guide: Guide;
let database: TestDatabase;
beforeAll(async () => {
  [guide, database] = await Promise.all([Guide.create(), createDatabase()]);
});
afterAll(async () => {
  await database.drop();
  await guide.copy.remove();
});

/** Runs `migration:run` or `migration:revert` of the copy on the database. */
const migrate = (script: string): Promise<string> =>
  guide.run('npm', ['run', '--silent', script], { DATABASE_URL: database.url });

/** Runs statements, and returns the rows of the last one. */
async function query(...statements: string[]): Promise<unknown> {
  const dataSource = await createDataSource(
    { database: database.config, product: PRODUCT },
    FEATURES,
  ).initialize();
  try {
    let rows: unknown;
    for (const statement of statements) rows = await dataSource.query(statement);
    return rows;
  } finally {
    await dataSource.destroy();
  }
}

/** Runs tests of the copy on the database type of this test. */
const test = (...files: string[]): Promise<string> =>
  guide.npm('test', '--', '--selectProjects', DATABASE, '--', ...files);

/** Writes what the guide says about the migration, the entity, the service, the module and the test. */
async function applyGuide(): Promise<void> {
  const files = await readdir(guide.copy.resolve(`${FOLDER}/migrations`));
  const draft = files.find((file) => file.includes('-add-'))!;
  const code = await readFile(guide.copy.resolve(`${FOLDER}/migrations/${draft}`), 'utf8');
  const name = /export class (\w+)/.exec(code)![1]!;
  const up = guide.getBlock('ts', 'createUniqueConstraint');
  await guide.writeCode(
    `${FOLDER}/migrations/${draft}`,
    `export class ${name} implements MigrationInterface {\n${up}${DOWN}}\n`,
  );
  await guide.edit(`${FOLDER}/pets.module.ts`, {
    'migrations: [': `migrations: [${name}, `,
    'import { PetEntity': `import { ${name} } from './migrations/${draft.replace('.ts', '.js')}';\nimport { PetEntity`,
  });
  const entity = await readFile(guide.copy.resolve(`${FOLDER}/pet.entity.ts`), 'utf8');
  const [notes] = /\n {2}@Column\([^)]*\)\n {2}notes.*\n/.exec(entity)!;
  const [category] = /\n {2}@Index[^;]*categoryId.*\n/.exec(entity)!;
  await guide.edit(`${FOLDER}/pet.entity.ts`, {
    [notes]: `\n  @Column('varchar', { length: 50, nullable: true })\n  color!: string | null;\n`,
    [category]: '',
    'status!': 'state!',
    "@Entity('pets')": `@Unique('uq_pets_name', ['name'])\n@Entity('pets')`,
    ', Index': ', Unique',
    ', ForeignKey': '',
    ', bigintTransformer': '',
  });
  await guide.edit(`${FOLDER}/pets.service.ts`, {
    'status: row.status': 'state: row.state',
    'notes: row.notes': 'color: row.color',
    '    categoryId: row.categoryId ?? undefined,\n': '',
  });
  await guide.writeCode('test/pets.databases.test.ts', TEST);
}

/** Writes the operation that the guide shows. */
async function addOperation(): Promise<void> {
  const path = `${FOLDER}/exchange.controller.ts`;
  await guide.writeBlock(path, 'class ExchangeController');
  await guide.edit(`${FOLDER}/pets.service.ts`, { 'function toPet': 'export function toPet' });
  await guide.edit(`${FOLDER}/pets.module.ts`, {
    'controllers: [': 'errorCodes: [NOT_FOR_SALE],\n  controllers: [ExchangeController, ',
    'import { PetEntity': `import { ExchangeController, NOT_FOR_SALE } from './exchange.controller.js';\nimport { PetEntity`,
  });
  await guide.writeCode('test/exchange.databases.test.ts', EXCHANGE_TEST);
}

describe('a generated module', () => {
  it('has columns added, renamed and removed, a reference removed, and a column made unique, with its rows kept', async () => {
    await guide.runBlock('notes:text?', 1);
    await migrate('migration:run');
    await query(
      `INSERT INTO "categories" ("name") VALUES ('dog')`,
      `INSERT INTO "pets" ("name", "status", "notes", "category_id") VALUES ('Rex', 'sold', 'old', 1), ('Tom', 'pending', NULL, NULL), ('Ada', 'sold', NULL, 1)`,
      `DELETE FROM "pets" WHERE "name" = 'Ada'`,
    );
    await guide.runBlock('color:string');
    const { failed, output } = await guide.copy.npm('typecheck');
    expect([failed, output]).toEqual([true, expect.stringContaining('pets.service.ts')]);

    await applyGuide();
    await guide.npm('format');
    await guide.npm('openapi');
    await migrate('migration:run');
    const pets = 'SELECT * FROM "pets" ORDER BY "id"';
    const rows = [
      { name: 'Rex', state: 'sold', color: null },
      { name: 'Tom', state: 'pending', color: null },
    ];
    expect(await query(pets)).toMatchObject(rows);
    // No id is assigned again, and nothing refers to the category any more.
    const added = `INSERT INTO "pets" ("name", "state") VALUES ('Eve', 'sold')`;
    expect(await query(`DELETE FROM "categories"`, added, pets)).toMatchObject([
      ...rows,
      { id: DATABASE === 'sqlite' ? 4 : '4' },
    ]);
    await expect(query(added)).rejects.toThrow(/unique/i);
    await migrate('migration:revert');
    expect(await query(pets)).toMatchObject([{ name: 'Rex', status: 'sold' }, {}, {}]);

    expect(await test('test/pets', 'test/migrations')).not.toContain('FAIL');
  });

  it('gets an operation of its own, in one transaction, with an error code', async () => {
    await addOperation();
    await guide.npm('format');
    await guide.npm('openapi');
    await guide.npm('typecheck');
    await guide.npm('lint');
    expect(await test('test/exchange')).toContain(`PASS ${DATABASE}`);
    // A later run overwrites nothing of it.
    expect(await guide.runBlock('color:string')).toContain('Nothing to write.');
  });
});

const DOWN = `
  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropUniqueConstraint('pets', 'uq_pets_name');
    const text = { name: 'notes', type: 'text', isNullable: true };
    const reference = { name: 'category_id', type: 'bigint', isNullable: true };
    await queryRunner.addColumns('pets', [new TableColumn(text), new TableColumn(reference)]);
    const columnNames = ['category_id'];
    await queryRunner.createForeignKey('pets', new TableForeignKey({ name: 'fk_pets_category_id', columnNames, referencedTableName: 'categories', referencedColumnNames: ['id'] }));
    await queryRunner.createIndex('pets', new TableIndex({ name: 'ix_pets_category_id', columnNames }));
    await queryRunner.renameColumn('pets', 'state', 'status');
    await queryRunner.dropColumn('pets', 'color');
  }
`;

const TEST = `const app = await startApp();
afterAll(() => app.stop());

await describeResource(app, '/pets', {
  create: (n) => ({ name: \`Rex \${n}\`, state: 'pending', color: 'black' }),
  other: (n) => ({ name: \`Tom \${n}\`, state: 'sold', color: 'white' }),
  invalid: { name: [1], state: ['lost'], color: [''] },
  unique: [['name']],
});
`;

const EXCHANGE_TEST = `const app = await startApp();
afterAll(() => app.stop());

const post = async (path: string, name: string) => {
  const body = JSON.stringify({ name, state: 'available' });
  const response = await sendRequest(\`\${app.url}/v1/pets\${path}\`, { method: 'POST', headers: jsonHeaders(app.key), body });
  return response.json<{ code?: string; id?: number }>();
};
const list = async () => (await app.send('GET', '/v1/pets')).json();

it('exchanges a pet once, or not at all', async () => {
  expect(await post('', 'Rex')).toMatchObject({ id: 1 });
  expect(await post('/1/exchange', 'Rex')).toMatchObject({ code: 'ALREADY_EXISTS' });
  expect(await list()).toMatchObject([{ name: 'Rex', state: 'available' }]);
  expect(await post('/1/exchange', 'Tom')).toMatchObject({ name: 'Tom' });
  expect(await post('/1/exchange', 'Ada')).toMatchObject({ code: 'NOT_FOR_SALE', status: 409 });
  expect(await list()).toMatchObject([{ name: 'Rex', state: 'sold' }, { name: 'Tom' }]);
});
`;
