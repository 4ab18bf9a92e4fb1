import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIObject } from '@nestjs/swagger';
import { connect } from '../examples/client.js';
import { startApp, type TestApp } from './support/app.js';
import { buildOnce } from './support/build.js';
import { isNotImplemented } from './support/not-implemented.js';

const ROOT = join(import.meta.dirname, '..');
const COLLECTION = 'examples/petstore.postman_collection.json';
/** Jest names what is skipped. */
const suiteWithCurl = spawnSync('curl', ['--version']).status === 0 ? describe : describe.skip;

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const { paths } = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8')) as OpenAPIObject;

/** Runs a command at the root of the project, with PATH and what it is given as its environment. */
function run(command: string, args: string[], env: Record<string, string> = {}): Promise<Outcome> {
  const options = { cwd: ROOT, env: { PATH: process.env['PATH'], ...env }, timeout: 60_000 };
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });
}

describe('The examples', () => {
  let app: TestApp;
  let env: Record<string, string>;
  beforeAll(async () => {
    await buildOnce();
    app = await startApp();
    env = { PETSTORE_URL: `${app.url}/v1`, PETSTORE_API_KEY: app.key };
  }, 120_000);
  afterAll(() => app.stop());

  it('have the types of openapi.json; `npm run openapi` writes them', async () => {
    const tool = join(ROOT, 'node_modules/openapi-typescript/bin/cli.js');
    const { code, stdout } = await run(process.execPath, [tool, 'openapi.json']);
    expect(code).toBe(0);
    expect(await readFile(join(ROOT, 'examples/petstore.d.ts'), 'utf8')).toBe(stdout);
  });

  it('in TypeScript create, list, ask for changes, and tell errors by their code', async () => {
    const client = join(await buildOnce(), 'examples/client.js');
    const { code, stdout, stderr } = await run(process.execPath, [client], env);
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^Created \d+: dog$/),
      expect.stringMatching(/^Listed \d+, and unchanged: true$/),
      'Refused: VALIDATION_FAILED',
      '',
    ]);
    expect(stderr).toMatch(/GET \S+\/pets\/1 is deprecated and ends on Mon, 01 Nov 2027/);
    expect(code).toBe(0);
    const refused = await run(process.execPath, [client], { ...env, PETSTORE_API_KEY: 'wrong' });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('Set PETSTORE_API_KEY to a valid key.');
  });

  it('in TypeScript do not compile with a name that the document lacks', async () => {
    const client = connect(`${app.url}/v1`, app.key);
    // Where one of these compiled, `npm run typecheck` would fail.
    // @ts-expect-error the property is called name
    const wrong = await client.POST('/categories', { body: { nam: 'dog' } });
    expect(wrong.error?.code).toBe('VALIDATION_FAILED');
    // @ts-expect-error the path is called /categories
    const lost = await client.GET('/category');
    expect(lost.response.status).toBe(404);
    const { data } = await client.GET('/categories');
    // @ts-expect-error a category has no title
    expect(data?.[0]?.title).toBeUndefined();
  });

  it('in TypeScript try a list again after a 503, and a create never', async () => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(request.method!);
      const away = seen.length < 3;
      response.writeHead(away ? 503 : 200, {
        'Content-Type': 'application/json',
        'Retry-After': '0',
      });
      const error = { code: 'SERVICE_UNAVAILABLE', message: 'Try again later.', status: 503 };
      response.end(JSON.stringify(away ? error : []));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const { port } = server.address() as AddressInfo;
      const client = connect(`http://127.0.0.1:${port}/v1`, app.key);
      const created = await client.POST('/categories', { body: { name: 'dog' } });
      expect(created.error?.code).toBe('SERVICE_UNAVAILABLE');
      expect((await client.GET('/categories')).data).toEqual([]);
      expect(seen).toEqual(['POST', 'GET', 'GET']);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it('for Postman are made from openapi.json; `npm run openapi` writes them', async () => {
    const script = join(await buildOnce(), 'examples/postman.js');
    const made = await run(process.execPath, [
      '--input-type=module',
      '--eval',
      `process.stdout.write(await (await import(${JSON.stringify(script)})).renderCollection())`,
    ]);
    expect(made.stdout).toBe(await readFile(join(ROOT, COLLECTION), 'utf8'));
  });

  it('for Postman call every operation', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'petstore-postman-'));
    try {
      const report = join(directory, 'report.json');
      const { code } = await run(process.execPath, [
        join(ROOT, 'node_modules/newman/bin/newman.js'),
        'run',
        COLLECTION,
        `--env-var=baseUrl=${app.url}/v1`,
        `--env-var=bearerToken=${app.key}`,
        '--reporters=json',
        `--reporter-json-export=${report}`,
      ]);
      expect(code).toBe(0);
      const { executions } = (
        JSON.parse(await readFile(report, 'utf8')) as {
          run: { executions: { item: { name: string }; response: { code: number } }[] };
        }
      ).run;
      const answers = executions.map(({ item, response }) => [item.name, response.code] as const);
      expect(answers.slice(0, 2)).toEqual([
        ['List categories', 200],
        ['Create a category', 201],
      ]);
      const operations = Object.values(paths).flatMap((item) =>
        Object.values(item as Record<string, Parameters<typeof isNotImplemented>[0]>),
      );
      // As sets: the collection has them by tag, the document by path.
      const called = new Map(answers);
      expect(answers.length).toBe(operations.length);
      expect(new Set(called.keys())).toEqual(new Set(operations.map(({ summary }) => summary)));
      expect(new Set([...called.keys()].filter((name) => called.get(name) === 501))).toEqual(
        new Set(operations.filter(isNotImplemented).map(({ summary }) => summary)),
      );
      expect(answers.filter(([, status]) => status === 401 || status === 405)).toEqual([]);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  suiteWithCurl('with curl', () => {
    it('show every answer, and its status', async () => {
      const { code, stdout, stderr } = await run('bash', ['examples/curl.sh'], env);
      expect(stderr).toBe('');
      expect(code).toBe(0);
      const statuses = stdout.match(/^\d{3}$/gm)!;
      expect(statuses.slice(0, -1)).toEqual(['201', '200', '304', '400']);
      // Once pets are specified, there may be one or not.
      const ofPet = isNotImplemented(paths['/pets/{petId}']!.get!) ? ['501'] : ['200', '404'];
      expect(ofPet).toContain(statuses.at(-1));
      expect(stdout).toMatch(
        /^\{"id":\d+,"name":"dog","description":"Dogs of every breed and size"\}$/m,
      );
      expect(stdout).toContain('"code":"VALIDATION_FAILED"');
      expect(stdout).toMatch(/^Sunset: Mon, 01 Nov 2027 00:00:00 GMT/m);
      expect((await run('bash', ['examples/curl.sh'])).stderr).toContain('Set PETSTORE_API_KEY');
    });
  });
});
