import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { OpenAPIObject } from '@nestjs/swagger';
import { connect } from '../examples/client.js';
import { startApp, type TestApp } from './support/app.js';
import { buildOnce } from './support/build.js';
import type { ProcessResult } from './support/cli.js';
import { isNotImplemented } from './support/not-implemented.js';

const ROOT = join(import.meta.dirname, '..');
const describeIfCurl = spawnSync('curl', ['--version']).status === 0 ? describe : describe.skip;

const { paths } = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8')) as OpenAPIObject;

/** Runs a command in the project root. Its environment is PATH and `env`. */
function run(
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<ProcessResult> {
  const options = { cwd: ROOT, env: { PATH: process.env['PATH'], ...env }, timeout: 60_000 };
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });
}

describe('examples', () => {
  let app: TestApp;
  let env: Record<string, string>;
  beforeAll(async () => {
    await buildOnce();
    app = await startApp();
    env = { PETSTORE_URL: `${app.url}/v1`, PETSTORE_API_KEY: app.key };
  }, 120_000);
  afterAll(() => app.stop());

  describe('petstore.d.ts', () => {
    it('matches openapi.json (run `npm run openapi` to update)', async () => {
      const tool = join(ROOT, 'node_modules/openapi-typescript/bin/cli.js');
      const { code, stdout } = await run(process.execPath, [tool, 'openapi.json']);
      expect(code).toBe(0);
      expect(await readFile(join(ROOT, 'examples/petstore.d.ts'), 'utf8')).toBe(stdout);
    });
  });

  describe('client.ts', () => {
    it('creates, lists, revalidates and handles errors by code', async () => {
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
      const unauthorized = await run(process.execPath, [client], {
        ...env,
        PETSTORE_API_KEY: 'wrong',
      });
      expect(unauthorized.code).toBe(1);
      expect(unauthorized.stderr).toContain('Set PETSTORE_API_KEY to a valid key.');
    });

    it('does not compile with names missing from the OpenAPI document', async () => {
      const client = connect(`${app.url}/v1`, app.key);
      // If one of these compiled, `npm run typecheck` would fail on its unused directive.
      // @ts-expect-error the property is called name
      const created = await client.POST('/categories', { body: { nam: 'dog' } });
      expect(created.error?.code).toBe('VALIDATION_FAILED');
      // @ts-expect-error the path is called /categories
      const list = await client.GET('/category');
      expect(list.response.status).toBe(404);
      const { data } = await client.GET('/categories');
      // @ts-expect-error a category has no title
      expect(data?.[0]?.title).toBeUndefined();
    });

    it('retries a list request after 503, but never a create request', async () => {
      const methods: string[] = [];
      const server = createServer((request, response) => {
        methods.push(request.method!);
        const unavailable = methods.length < 3;
        response.writeHead(unavailable ? 503 : 200, {
          'Content-Type': 'application/json',
          'Retry-After': '0',
        });
        const error = { code: 'SERVICE_UNAVAILABLE', message: 'Try again later.', status: 503 };
        response.end(JSON.stringify(unavailable ? error : []));
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      try {
        const { port } = server.address() as AddressInfo;
        const client = connect(`http://127.0.0.1:${port}/v1`, app.key);
        const created = await client.POST('/categories', { body: { name: 'dog' } });
        expect(created.error?.code).toBe('SERVICE_UNAVAILABLE');
        expect((await client.GET('/categories')).data).toEqual([]);
        expect(methods).toEqual(['POST', 'GET', 'GET']);
      } finally {
        server.close();
        server.closeAllConnections();
      }
    });
  });

  describeIfCurl('curl.sh', () => {
    it('prints every response and its status', async () => {
      const { code, stdout, stderr } = await run('bash', ['examples/curl.sh'], env);
      expect(stderr).toBe('');
      expect(code).toBe(0);
      const statuses = stdout.match(/^\d{3}$/gm)!;
      expect(statuses.slice(0, -1)).toEqual(['201', '200', '304', '400']);
      // The pet may or may not exist once the operation is implemented.
      const petStatuses = isNotImplemented(paths['/pets/{petId}']!.get!) ? ['501'] : ['200', '404'];
      expect(petStatuses).toContain(statuses.at(-1));
      expect(stdout).toMatch(
        /^\{"id":\d+,"name":"dog","description":"Dogs of every breed and size"\}$/m,
      );
      expect(stdout).toContain('"code":"VALIDATION_FAILED"');
      expect(stdout).toMatch(/^Sunset: Mon, 01 Nov 2027 00:00:00 GMT/m);
      expect((await run('bash', ['examples/curl.sh'])).stderr).toContain('Set PETSTORE_API_KEY');
    });
  });
});
