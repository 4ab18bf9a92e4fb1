/**
 * Adopts the service as docs/adopting.md says: with a name, a version and a key prefix that occur elsewhere in the platform,
 * a module by hand and one from a contract. Then merges a next version, and runs what .ci/run runs in the fork. Of its
 * slow tests it runs only that of the image, which builds and starts the fork for production: all would double the time of CI.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sendRequest } from '../support/http-client.js';
import { cloneProject, machineEnvironment } from '../support/installation.js';
import { createServices, type Services } from '../support/service-process.js';
import { type Block, readBlocks } from '../support/snippets.js';

const { jest } = import.meta;
jest.setTimeout(2_700_000);

/** What many contracts have: slashes at the end of paths, texts without limits, a cursor, and an operation without a key. */
const CONTRACT = `openapi: 3.0.3
info: { title: Shelves, version: '1' }
paths:
  /shelves/:
    get:
      operationId: listShelves
      security: []
      parameters:
        - { name: limit, in: query, schema: { type: integer, default: 20, maximum: 100 } }
        - { name: cursor, in: query, schema: { type: string } }
      responses:
        '200': { description: Shelves., content: { application/json: { schema: { $ref: '#/components/schemas/Shelves' } } } }
    post:
      operationId: createShelf
      requestBody: { required: true, content: { application/json: { schema: { $ref: '#/components/schemas/NewShelf' } } } }
      responses:
        '201': { description: The shelf., content: { application/json: { schema: { $ref: '#/components/schemas/Shelf' } } } }
  /shelves/{id}/:
    get:
      operationId: getShelf
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
      responses:
        '200': { description: The shelf., content: { application/json: { schema: { $ref: '#/components/schemas/Shelf' } } } }
components:
  schemas:
    NewShelf: { type: object, required: [label], properties: { label: { type: string } } }
    Shelf: { type: object, required: [id, label], properties: { id: { type: integer }, label: { type: string } } }
    Shelves:
      type: object
      required: [items]
      properties: { items: { type: array, items: { $ref: '#/components/schemas/Shelf' } }, next_cursor: { type: string, nullable: true } }
`;

const ADD_MODULES = `
  npm run --silent generate -- from shelves.openapi.yaml
  mv shelves.openapi.yaml src/modules/shelves
  npx nest g resource modules/suppliers --type rest --crud
  git checkout --quiet src/app.module.ts
  npm install --no-fund --no-audit picocolors
`;

const FEATURES = `import type { Type } from '@nestjs/common';
import { ShelvesModule } from './modules/shelves/shelves.module.js';
import { SuppliersModule } from './modules/suppliers/suppliers.module.js';

/** The features of the service. A new feature adds one line. */
export const FEATURES: readonly Type[] = [
  // One per line, so that two new features merge without a conflict in the formatting.
  ShelvesModule,
  SuppliersModule,
];
`;

const VARIABLES = `
const variables = {
  supplierUrl: {
    name: 'SUPPLIER_URL',
    format: string('an https URL', (text) => text.startsWith('https:')),
    description: 'where orders go',
  },
} satisfies Variables;
`;

/** What a next version changes, among others: a variable, the platform, its tests, alerts, guides, the document and the template. */
const NEXT_VERSION = `
  sed -i "s/^}) satisfies Variables;/  added: { name: 'ADDED', format: formats.PROXIES,\\n    description: 'a variable of the next version' },\\n&/" src/platform/config/environment-variables.ts
  sed -i "s/'Identifies the request in the logs: /'Identifies the request in the log lines: /" src/platform/openapi/standard-responses.ts
  sed -i 's/^# Install/# How to install/' docs/install.md
  sed -i 's/5m]/6m]/g' tools/bench/RESULTS.md
  sed -i '1s/$/ and more/' README.md CHANGELOG.md
  sed -i 's/List categories/List all categories/' src/modules/categories/categories.controller.ts
  sed -i "s/severity: warning/severity: notice/" deploy/alerts.yml deploy/alerts.test.yml
  sed -i 's/"version": "1.0.0"/"version": "1.1.0"/' package.json
  npm run --silent openapi
  npm run --silent openapi:types
  npm run --silent docs:tables
`;

/** The files that docs/adopting.md calls the fork's own, or written. */
const OWN =
  /^(src\/(product|features)\.ts|(src|test)\/modules\/.*|README\.md|openapi\.json|docs\/configuration\.md|\.env\.example|package(-lock)?\.json)$/;

let directory: string;
let fork: string;
let services: Services;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'adopting-'));
  fork = join(directory, 'fork');
  services = await createServices();
  await cloneProject(fork);
  await run(
    'git checkout --quiet -B main; git add --all; git commit --quiet --allow-empty -m Base',
  );
  await run('git branch next; npm ci --no-fund --no-audit');
});
afterAll(async () => {
  await services.close();
  await rm(directory, { recursive: true, force: true });
});

/** Runs commands in the fork, and returns their output. @throws {Error} with its end if one fails */
function run(commands: string): Promise<string> {
  const identity = { NAME: 'test', EMAIL: 'test@example.com' };
  const env = {
    ...machineEnvironment,
    ...Object.fromEntries(
      ['AUTHOR', 'COMMITTER'].flatMap((role) =>
        Object.entries(identity).map(([part, value]) => [`GIT_${role}_${part}`, value]),
      ),
    ),
    GIT_MERGE_AUTOEDIT: 'no',
    CI: 'true',
    NO_COLOR: '1',
  };
  const options = { cwd: fork, env, maxBuffer: 64 * 1024 * 1024 };
  return new Promise((resolve, reject) => {
    execFile('bash', ['--norc', '-ec', commands], options, (error, stdout, stderr) => {
      const output = stdout + stderr;
      if (error === null) resolve(output);
      else reject(new Error(`${commands}\n${output.slice(-20_000)}`));
    });
  });
}

const commit = (message: string): Promise<string> =>
  run(`git add --all; git commit --quiet --message '${message}'`);

const readText = (file: string): Promise<string> => readFile(join(fork, file), 'utf8');

async function edit(file: string, change: (text: string) => string): Promise<void> {
  await writeFile(join(fork, file), change(await readText(file)));
}

/** Creates an API key in the database of the services. */
async function createKey(): Promise<string> {
  const database = `sqlite:${services.directory}/data.sqlite`;
  const output = await run(
    `npm run --silent build; DATABASE_URL=${database} node_modules/.bin/node dist/cli/keys.js create a`,
  );
  return /^\w{50,}$/m.exec(output)![0];
}

/** Completes the module that `nest g resource` has written with the code of docs/adding-a-module.md. */
async function writeSuppliers(): Promise<void> {
  const blocks = await readBlocks('docs/adding-a-module.md');
  const timestamp = String(Date.now());
  const getCode = (text: string): string =>
    (blocks.find(({ code }) => code.includes(text)) as Block).code
      .replaceAll('categories', 'shelves')
      .replaceAll('category', 'shelf')
      .replaceAll(/(?<=CreateSuppliers)\d+/g, timestamp);
  const folder = join(fork, 'src/modules/suppliers');
  const migration = `migrations/${timestamp}-create-suppliers`;
  const files = {
    'entities/supplier.entity.ts': `import { Column, Entity, ForeignKey } from 'typeorm';
import { bigintTransformer, IdColumn } from '../../../platform/index.js';

${getCode('class Supplier ')}`,
    [`${migration}.ts`]: `import { type MigrationInterface, type QueryRunner, Table } from 'typeorm';
import { addRevisionTrigger, dropRevisionTrigger, idColumn } from '../../../platform/index.js';

${getCode('implements MigrationInterface')}`,
    'suppliers.module.ts': `import { Feature, string, type Variables } from '../../platform/index.js';
import { Supplier } from './entities/supplier.entity.js';
import { CreateSuppliers${timestamp} } from './${migration}.js';
import { SuppliersController } from './suppliers.controller.js';
import { SuppliersService } from './suppliers.service.js';
${VARIABLES}
${getCode('class SuppliersModule').replace('})', '  variables,\n})')}`,
  };
  for (const [name, text] of Object.entries(files)) {
    await run(`mkdir -p "$(dirname src/modules/suppliers/${name})"`);
    await writeFile(join(folder, name), text);
  }
  await edit('src/modules/suppliers/suppliers.service.ts', (text) =>
    `import colors from 'picocolors';\n${text}`.replace(
      '`This action returns all suppliers`',
      "colors.reset('This action returns all suppliers')",
    ),
  );
}

/** Adopts the service as `store`, with two resources, and commits that. */
async function adopt(): Promise<void> {
  await edit('src/product.ts', (text) =>
    text
      .replace("'petstore'", "'store'")
      .replace("'Petstore'", "'Store'")
      .replace(/description: '.*'/, "description: 'Keeps what suppliers bring.'")
      .replace("'1.0.0'", "'0.1.0'")
      .replace("['pet']", "['shed', 'key']")
      .replace(/ *guide: .*\n/, ''),
  );
  await writeFile(join(fork, 'shelves.openapi.yaml'), CONTRACT);
  await run(ADD_MODULES);
  await writeSuppliers();
  await writeFile(join(fork, 'src/features.ts'), FEATURES);
  await writeFile(join(fork, 'README.md'), '# Store\n');
  await run('npm run --silent openapi; npm run --silent docs:tables');
  await run('npx prettier --write src/modules/suppliers');
  await commit('Adopt the service');
}

/** Returns the commands of .ci/run that run a script of package.json. */
async function readSteps(): Promise<string[]> {
  const text = await readText('.ci/run');
  const steps = Array.from(text.matchAll(/^(?:\w+=\S+ )?npm run ([\w:]+)/gm), ([, name]) =>
    name === 'test:slow' ? 'test:slow -- dockerfile' : name!,
  );
  return [...new Set(steps)];
}

describe('docs/adopting.md', () => {
  it('makes a fork whose checks pass, also after a merge, without changes of the platform', async () => {
    const formerKey = await createKey();
    await adopt();
    const changed = (await run('git diff --name-only main~')).trim().split('\n');
    expect(changed.filter((file) => !OWN.test(file))).toEqual([]);

    const key = await createKey();
    expect(key).toMatch(/^shed_/);
    const { url, service } = await services.serve({
      main: join(fork, 'dist/main.js'),
      env: { DATABASE_URL: `sqlite:${services.directory}/data.sqlite` },
    });
    for (const each of [formerKey, key]) {
      const headers = { authorization: `Bearer ${each}` };
      expect((await sendRequest(`${url}/v1/suppliers`, { headers })).status).toBe(200);
    }
    const headers = { 'x-request-id': key };
    const shelves = await sendRequest(`${url}/v1/shelves/`, { headers });
    expect(shelves.json()).toMatchObject({ items: [] });
    expect(shelves.headers['x-request-id']).not.toBe(key);
    const { headers: challenge } = await sendRequest(`${url}/v1/suppliers`);
    expect(challenge['www-authenticate']).toBe('Bearer realm="store"');
    expect(service.output).toContain('[Store]');
    const document = await sendRequest(`${url}/openapi.json`);
    expect(document.text).toContain('"Store"');
    expect(document.text).not.toMatch(/pet ?store|categor|clients\.md/i);

    await run('git checkout --quiet next');
    await run(NEXT_VERSION);
    await commit('Release the next version');
    await run('git update-ref refs/remotes/upstream/main next; git checkout --quiet main');
    const upgrade = (await readBlocks('docs/adopting.md')).find(({ code }) =>
      code.includes('git merge'),
    );
    const checks = 'npm run lint && npm run typecheck && npm test\n';
    expect(upgrade!.code).toContain(checks);
    await run(upgrade!.code.replace(checks, ''));
    expect(await readText('README.md')).toBe('# Store\n');
    const page = await readText('docs/configuration.md');
    expect(page.match(/`(ADDED|SUPPLIER_URL)`/g)).toEqual(['`ADDED`', '`SUPPLIER_URL`']);
    const written = (await run('git status --short')).trim().split('\n');
    expect(written.filter((line) => !OWN.test(line.slice(2).trim()))).toEqual([]);
    await run('git diff --quiet HEAD || git commit --quiet --all --message Upgrade');

    const steps = await readSteps();
    expect(steps).toEqual(
      expect.arrayContaining(['lint', 'lint:openapi', 'build', 'test:coverage', 'test:generator']),
    );
    for (const step of steps) await run(`npm run --silent ${step}`);
  });
});
