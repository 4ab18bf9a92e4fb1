/** Adopts the service as docs/adopting.md says, in a copy of the project, and merges a next version into it. */
import { readFile, writeFile } from 'node:fs/promises';
import { sendRequest } from '../support/http-client.js';
import { ProjectCopy } from '../support/project-copy.js';
import { commandSucceeds } from '../support/requirements.js';
import { createServices, type Services } from '../support/service-process.js';

const { jest } = import.meta;
jest.setTimeout(1_800_000);

/** Generates a module of a contract, which is kept with it. */
const ADD_MODULE = `
  npm run --silent generate -- resource animals
  npm run --silent generate -- from animals.openapi.json
  mv animals.openapi.json src/modules/animals
`;

const FEATURES = `import type { Type } from '@nestjs/common';
import { AnimalsModule } from './modules/animals/animals.module.js';

/** The features of the service. A new feature adds one line. */
export const FEATURES: readonly Type[] = [
  // One per line, so that two new features merge without a conflict in the formatting.
  AnimalsModule,
];
`;

/** What a next version changes, among others: the platform, its tests, alerts, guides, the document and the template. */
const NEXT_VERSION = `
  sed -i "s/'Identifies the request in the logs: /'Identifies the request in the log lines: /" src/platform/openapi/standard-responses.ts
  sed -i 's/^# Install/# How to install/' docs/install.md
  sed -i 's/5m]/6m]/g' tools/bench/RESULTS.md
  sed -i '1s/$/ and more/' README.md CHANGELOG.md
  sed -i 's/List categories/List all categories/' src/modules/categories/categories.controller.ts
  sed -i "s/severity: warning/severity: notice/" deploy/alerts.yml deploy/alerts.test.yml
  sed -i 's/"version": "1.0.0"/"version": "1.1.0"/' package.json
  npm run openapi
`;

const CHECKS = `
  npm run openapi
  npm run lint
  npm run typecheck
  npm test --silent -- test/modules documentation architecture public-names openapi.test authentication --selectProjects sqlite
`;

let copy: ProjectCopy;
let services: Services;
beforeAll(async () => {
  copy = await ProjectCopy.create();
  services = await createServices();
  await run('git init --quiet --initial-branch main');
  await commit('Initial state');
});
afterAll(async () => {
  await services.close();
  await copy.remove();
});

/** Runs commands in the copy, and returns their output. */
async function run(commands: string): Promise<string> {
  const { failed, output } = await copy.run('bash', ['-ec', commands]);
  if (failed) throw new Error(output);
  return output;
}

async function commit(message: string): Promise<void> {
  await copy.git('add', '--all');
  const { failed, output } = await copy.git('commit', '--quiet', '--message', message);
  if (failed) throw new Error(output);
}

/** Creates an API key in the database of the services. */
async function createKey(): Promise<string> {
  const database = `sqlite:${services.directory}/data.sqlite`;
  const output = await run(
    `npm run --silent build && DATABASE_URL=${database} node dist/cli/keys.js create a`,
  );
  return /^\w{50,}$/m.exec(output)![0];
}

async function edit(file: string, change: (text: string) => string): Promise<void> {
  await writeFile(copy.resolve(file), change(await readFile(copy.resolve(file), 'utf8')));
}

/** Adopts the service as `shelter`, with one resource, and commits that. */
async function adopt(): Promise<void> {
  await edit('src/product.ts', (text) =>
    text
      .replace("'petstore'", "'shelter'")
      .replace("'Petstore'", "'Shelter'")
      .replace(/description: '.*'/, "description: 'Keeps the animals of a shelter.'")
      .replace("['pet']", "['shelter', 'pet']"),
  );
  await run(ADD_MODULE);
  await writeFile(copy.resolve('src/features.ts'), FEATURES);
  await writeFile(copy.resolve('README.md'), '# Shelter\n');
  await run('npm run openapi');
  await commit('Adopt the service');
}

describe('docs/adopting.md', () => {
  it('makes the service a team’s own without a change of the platform, and merges the next version', async () => {
    const formerKey = await createKey();
    await adopt();
    const changed = (await run('git diff --name-only main~')).trim().split('\n');
    const OWN = /^(src\/(product|features)\.ts|(src|test)\/modules\/.*|README\.md|openapi\.json)$/;
    expect(changed.filter((file) => !OWN.test(file))).toEqual([]);

    const key = await createKey();
    expect(key).toMatch(/^shelter_/);
    const { url, service } = await services.serve({
      main: copy.resolve('dist/main.js'),
      env: { DATABASE_URL: `sqlite:${services.directory}/data.sqlite` },
    });
    for (const each of [formerKey, key]) {
      const headers = { authorization: `Bearer ${each}`, 'x-request-id': each };
      const response = await sendRequest(`${url}/v1/animals`, { headers });
      expect(response.status).toBe(200);
      expect(response.headers['x-request-id']).not.toBe(each);
    }
    const { headers } = await sendRequest(`${url}/v1/animals`);
    expect(headers['www-authenticate']).toBe('Bearer realm="shelter"');
    expect(service.output).toContain('[Shelter]');
    const document = await sendRequest(`${url}/openapi.json`);
    expect(document.text).toContain('"Shelter"');
    expect(document.text).not.toMatch(/pet ?store/i);

    await run('git checkout --quiet -b upstream main~');
    await run(NEXT_VERSION);
    await commit('Release the next version');
    await run('git checkout --quiet main && git config merge.ours.driver true');
    const merge = await copy.git('merge', '--no-edit', 'upstream');
    expect([merge.failed, merge.output]).toEqual([false, expect.not.stringContaining('CONFLICT')]);
    expect(await readFile(copy.resolve('README.md'), 'utf8')).toBe('# Shelter\n');
    await run(CHECKS);
    // Only the document has changed, and by the platform.
    expect((await run('git status --short')).trim()).toBe('M openapi.json');
    if (commandSucceeds('promtool')) await run('promtool test rules deploy/alerts.test.yml');
  });
});
