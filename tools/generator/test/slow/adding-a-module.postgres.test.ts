/** Runs the commands and the code of docs/adding-a-module.md. */
import { pets } from '../excerpts.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

let guide: Guide;
beforeAll(async () => {
  guide = await Guide.create();
});
afterAll(() => guide.copy.remove());

/** The names of tests that passed on both databases. */
function getPassed(output: string): string[] {
  const onSqlite = [...output.matchAll(/^PASS sqlite test\/(.+)\.databases\.test\.ts/gm)];
  return onSqlite
    .map(([, test]) => test!)
    .filter((test) => output.includes(`PASS postgres test/${test}.databases.test.ts`));
}

describe('the guide', () => {
  it('generates a module of a contract that passes the checks without a change', async () => {
    await guide.git('checkout', '--quiet', '-b', 'library');
    await guide.write('library.openapi.yaml', LIBRARY);
    const output = await guide.runBlock('generate -- from');
    expect(output).toMatch(/^POST \/books +implemented$/m);
    expect(getPassed(output)).toContain('library');
    await guide.commit('Add library');
  });

  it('generates a resource by fields that passes the checks without a change', async () => {
    await guide.git('checkout', '--quiet', '-b', 'pets', 'main');
    expect(getPassed(await guide.runBlock('notes:text?'))).toContain('pets');
    await guide.commit('Add pets');
  });

  it('resolves the conflict of two branches that add modules', async () => {
    const merge = await guide.copy.git('merge', 'library');
    expect(merge).toMatchObject({ failed: true });
    const conflicts = await guide.git('diff', '--name-only', '--diff-filter=U');
    expect(conflicts.trim()).toBe('openapi.json');
    await guide.runBlock('git add openapi.json');
    await guide.git('commit', '--quiet', '--no-edit');
    const tests = ['test/openapi.test.ts', 'test/pets', 'test/library'];
    await guide.npm('test', '--', '--selectProjects', 'sqlite', '--', ...tests);
  });

  it("makes a resource of Nest's generator, which is secured and validated as it is", async () => {
    await guide.git('checkout', '--quiet', '-b', 'suppliers', 'main');
    await guide.runBlock('nest g resource');
    await guide.npm('typecheck');
    await guide.writeCode('test/plain.test.ts', PLAIN_TEST);
    const output = await guide.npm('test', '--', 'test/plain', '--selectProjects', 'sqlite');
    expect(output).toContain('PASS sqlite test/plain.test.ts');
  });

  it('stores that resource, with a reference, as the code of the guide does', async () => {
    await guide.git('checkout', '--quiet', 'src/app.module.ts');
    const folder = 'src/modules/suppliers';
    await guide.edit('src/features.ts', {
      'import { StoreModule': `import { SuppliersModule } from './modules/suppliers/suppliers.module.js';\nimport { StoreModule`,
      '  StoreModule,': '  StoreModule,\n  SuppliersModule,',
    });
    await guide.writeBlock(`${folder}/entities/supplier.entity.ts`, 'class Supplier {');
    await guide.writeBlock(`${folder}/migrations/1796000000000-create-suppliers.ts`, 'createTable');
    await guide.writeBlock(`${folder}/suppliers.module.ts`, 'class SuppliersModule');
    await guide.writeBlock('test/suppliers.databases.test.ts', 'describeResource');
    await guide.writeCode(`${folder}/dto/create-supplier.dto.ts`, DTO);
    await guide.writeCode(`${folder}/suppliers.service.ts`, SERVICE);
    await guide.edit(`${folder}/suppliers.controller.ts`, {
      "@Param('id') id: string": "@IdParam('id') id: number",
      '+id': 'id',
      ', Param': '',
      '  @Get()\n': `  @Get()\n  @Operation({ operationId: 'listSuppliers', response: 'All suppliers.', returns: [SupplierDto], list: 'whole' })\n`,
      'import { SuppliersService }': `import { SupplierDto } from './dto/create-supplier.dto.js';\nimport { IdParam } from '../../platform/resource/operation/id-param.decorator.js';\nimport { Operation } from '../../platform/resource/operation/operation.decorator.js';\nimport { SuppliersService }`,
    });
    await guide.npm('format');
    await guide.npm('typecheck');
    const output = await guide.npm('test', '--', 'test/suppliers', 'test/migrations');
    expect(getPassed(output)).toEqual(expect.arrayContaining(['suppliers', 'migrations']));
  });
});

const LIBRARY = JSON.stringify(pets()).replaceAll('pet', 'book').replaceAll('Pet', 'Book');

const PLAIN_TEST = `const app = await startApp();
afterAll(() => app.stop());
it('has the resource', async () => {
  const url = app.url + '/v1/suppliers';
  const post = (body: string) => sendRequest(url, { method: 'POST', headers: jsonHeaders(app.key), body });
  const responses = [await sendRequest(url), await app.send('GET', '/v1/suppliers'), await post('{}'), await post('{"a": 1}')];
  expect(responses.map(({ status }) => status)).toEqual([401, 200, 201, 400]);
  expect(responses[3]!.json()).toMatchObject({ code: 'VALIDATION_FAILED' });
});
`;

const DTO = `export class CreateSupplierDto {
  @Property({ type: 'string', minLength: 1, maxLength: 100, notBlank: true })
  name!: string;

  @Property({ type: 'integer', minimum: 1 })
  categoryId!: number;
}

export class SupplierDto extends CreateSupplierDto {
  @Property({ type: 'integer', minimum: 1 })
  id!: number;
}
`;

const SERVICE = `@Injectable()
export class SuppliersService {
  private readonly suppliers: Resource<Supplier, Supplier>;

  constructor(@InjectRepository(Supplier) suppliers: Repository<Supplier>, kit: ResourceKit) {
    this.suppliers = kit.resource(suppliers, { toBody: (row) => row });
  }

  create = (supplier: CreateSupplierDto) => this.suppliers.create(supplier);
  findAll = () => this.suppliers.list();
  findOne = (id: number) => this.suppliers.read({ id });
  update = (id: number, changes: UpdateSupplierDto) => this.suppliers.patch({ id }, changes);
  remove = (id: number) => this.suppliers.delete({ id });
}
`;
