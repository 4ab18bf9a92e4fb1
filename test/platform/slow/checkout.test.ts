/** Runs what README.md quotes in a clone, with no more than the Node.js, npm and Git of the machine. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cloneProject, machineEnvironment } from '../support/installation.js';
import { readBlocks } from '../support/snippets.js';

const execute = promisify(execFile);
let directory: string;
let checkout: string;

/** Runs commands in the checkout, and returns their standard output. */
async function run(commands: string): Promise<string> {
  const options = { cwd: checkout, env: machineEnvironment };
  return (await execute('sh', ['-ec', commands], options)).stdout;
}

/** The shell blocks of README.md: the commands to begin with, requests, keys, and the generator. */
const blocks = await readBlocks('README.md');
const [begin, ...others] = blocks.flatMap(({ language, code }) => (language === 'sh' ? code : []));
/** The lines of the first block, without comments. */
const [start, test] = begin!.trim().split('\n').map((line) => line.replace(/ +#.*/, '')); // prettier-ignore

/** A document of another team. */
const LIBRARY = `openapi: 3.0.3
info: { title: Library, version: 1.0.0 }
paths:
  /books:
    get:
      operationId: listBooks
      responses: { '200': { description: All books, content: { application/json: { schema: { type: array, items: {} } } } } }
`;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-checkout-'));
  checkout = join(directory, 'petstore');
  await cloneProject(checkout);
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/**
 * Runs a command until it prints a curl command, and returns the response to that.
 *
 * @param then what else to do before the command is stopped; it gets the URL of the service
 */
async function requestAsPrinted(
  command: string,
  then?: (url: string) => Promise<void>,
): Promise<string> {
  const env = { ...machineEnvironment, PORT: '0' };
  const child = spawn('sh', ['-c', command], { cwd: checkout, env, detached: true });
  let output = '';
  child.stderr.on('data', (text) => (output += text));
  const printed = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (text) => {
      const [, curl] = /^ +(curl .*)$/m.exec((output += text)) ?? [];
      if (curl !== undefined) resolve(curl);
    });
    child.once('close', () => reject(new Error(output)));
  });
  const closed = once(child, 'close');
  try {
    const response = await run(`${await printed} --silent --show-error --fail`);
    await then?.(new URL(/http:\S+/.exec(await printed)![0]).origin);
    return response;
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGTERM');
    await closed;
  }
}

describe('README.md', () => {
  it('starts a service by its first command that serves the requests printed and on the page', async () => {
    expect([start, test]).toEqual(['npm ci && npm start', 'npm ci && npm test']);
    const [requests, keys, generator, ...rest] = others;
    expect(rest).toEqual([]);
    const response = await requestAsPrinted(start!, async (url) => {
      const created = { id: 1, name: 'dog', description: 'Dogs of every breed and size' };
      const printed = await run(requests!.replaceAll('http://127.0.0.1:3000', url));
      expect(printed).toBe(JSON.stringify(created) + JSON.stringify([created]));
      // The first key, that of the requests, and the third and fourth one.
      expect(await run(keys!)).toMatch(
        /^1 +first .*\n2 +readme .*\n3 +billing +read .*\n[^]*^API key 3 revoked/m,
      );
    });
    expect(response).toBe('[]');
    await writeFile(join(checkout, 'library.openapi.yaml'), LIBRARY);
    const generated = await run(generator!);
    for (const file of ['src/modules/library/library.module.ts', 'suppliers.openapi.json'])
      expect(generated).toContain(`CREATE ${file}`);
  });
});
