import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from '../generator.js';
import type { Json } from '../read/json.js';
import { formatReport } from '../report.js';
import { readResourceContract } from '../resource-contract.js';

const PROJECT = process.cwd();
const CONTRACT = await readResourceContract('shops');
const SERVICE = 'src/modules/shops/shops.service.ts';
const ENTITY = 'src/modules/shops/shop.entity.ts';
const TEST = 'test/modules/shops.databases.test.ts';

beforeEach(async () => {
  process.chdir(await mkdtemp(join(tmpdir(), 'generator-')));
  await copyFile(join(PROJECT, '.prettierrc.json'), '.prettierrc.json');
  await mkdir('src');
  await writeFile('src/features.ts', `import { A } from './a.js';\n\nexport default [\n  A,\n];\n`);
  await writeFile('openapi.json', '{}');
});
afterEach(async () => {
  const folder = process.cwd();
  process.chdir(PROJECT);
  await rm(folder, { recursive: true });
});

/** Generates the module of a contract whose schemas have the given properties beside `name`. */
async function run(properties: Json, paths: Json = {}): ReturnType<typeof generate> {
  const text = JSON.stringify(CONTRACT, (key, value: Json) => {
    if (key === 'paths') return { ...value, ...paths };
    return key === 'properties' ? { ...value, ...properties } : value;
  });
  const root = JSON.parse(text) as Json;
  const result = await generate(root, { name: 'shops', source: 'shops.openapi.json' });
  await result.changes.apply();
  return result;
}

const integer = { type: 'integer' };
const text = (maxLength: number): Json => ({ type: 'string', maxLength });

describe('a changed contract', () => {
  it.each<[string, Json, Json, string]>([
    ['a longer text', text(80), text(200), 'town is varchar(80), and varchar(200) in the contract'],
    ['another type', text(80), integer, 'town is varchar(80), and bigint in'],
    ['a unique value', text(80), { ...text(80), 'x-unique': true }, 'add uq_shops_town with a'],
    ['a reference', integer, { ...integer, 'x-references': 'towns' }, 'add fk_shops_town with a'],
  ])('with %s names what the entity needs', async (_name, before, after, task) => {
    await run({ town: before });
    const { tasks } = await run({ town: after });
    expect(tasks.join('\n')).toContain(`${ENTITY}: ${task}`);
    await expect(run({ town: before })).resolves.toMatchObject({ tasks: [] });
  });

  it('with a new property reports operations without its column as not implemented', async () => {
    await run({});
    const { module, tasks } = await run({ town: text(80) });
    expect(formatReport(module)).toMatch(/POST \/shops +to do: the entity lacks town\n/);
    expect(formatReport(module)).toContain('0 implemented, 6 to do, 0 stubs');
    expect(tasks[0]).toMatch(`${ENTITY}: add town, and the draft of its migration, add-town-to-sh`);
  });

  it('with a new operation reports it as not implemented', async () => {
    const paths = { '/shops/{id}/close': { post: { operationId: 'close', responses: {} } } };
    await run({});
    const { module, tasks } = await run({}, paths);
    expect(formatReport(module)).toMatch(/close +to do: the service lacks close\n/);
    expect(tasks).toEqual([`${SERVICE}: implement close.`]);
    const service = await readFile(SERVICE, 'utf8');
    await writeFile(SERVICE, service.replace(/\}\n/, '}\n\n  close() {}\n'));
    await run({}, paths);
    await expect(run({})).resolves.toMatchObject({
      tasks: [`${SERVICE}: close is not in the contract.`],
    });
  });

  it('without a property names the column and the test that still have it', async () => {
    await run({ town: text(80) });
    const { tasks } = await run({});
    expect(tasks).toEqual([
      `${ENTITY}: town is not in the contract.`,
      `${TEST}: town is in one class less: correct what sends it.`,
    ]);
  });
});
