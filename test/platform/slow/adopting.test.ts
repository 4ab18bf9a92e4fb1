/** Carries out docs/adopting.md in a copy of the project, and checks what is promised there. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { ProjectCopy } from '../support/project-copy.js';
import { sendRequest } from '../support/http-client.js';
import { createServices, type Services } from '../support/service-process.js';

const { jest } = import.meta;
jest.setTimeout(1_800_000);

let copy: ProjectCopy;
let services: Services;
beforeAll(async () => {
  copy = await ProjectCopy.create();
  services = await createServices();
  await run('git init --quiet && git add --all');
  await copy.git('commit', '--quiet', '--message', 'Initial state');
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

/** Creates an API key in the database of the services. */
async function createKey(): Promise<string> {
  const database = `sqlite:${services.directory}/data.sqlite`;
  const output = await run(
    `npm run --silent build && DATABASE_URL=${database} node dist/cli/keys.js create a`,
  );
  return /^\w{50,}$/m.exec(output)![0];
}

const listTests = async (): Promise<string[]> =>
  (await run('npm test --silent -- --listTests')).split('\n').map((path) => basename(path));

const findMentions = (text: string, paths: string): Promise<string> =>
  run(`! grep -rniE '${text}' ${paths}`);

describe('docs/adopting.md', () => {
  it('renames the service, replaces its resource, and keeps its keys and the tests of the platform', async () => {
    const page = await readFile(copy.resolve('docs/adopting.md'), 'utf8');
    const [name, resources] = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text]) => text!);
    const [files, formerKey] = [new Set(await listTests()), await createKey()];

    await run(name!);
    await findMentions('petstore', 'deploy compose.yaml SECURITY.md');
    const key = await createKey();
    expect(key).toMatch(/^shelter_/);

    // On one database: the renamed code is the same on both. A busy machine may fail a test once.
    const test = 'npm test -- --selectProjects sqlite';
    await run(resources!.replace(/npm test$/m, `(${test} || ${test} --onlyFailures)`));
    await findMentions('categor', 'src');
    const left = new Set(await listTests());
    expect([...files].filter((file) => left.has(file)).length).toBeGreaterThan(0.8 * files.size);

    await run('npm run --silent build');
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
  });
});
