import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connect } from '../examples/client.js';
import { FEATURES } from '../src/features.js';
import { startApp, type TestApp } from './support/app.js';
import { getBuiltFile } from './support/build.js';
import type { CommandResult } from './support/cli.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;
const ROOT = join(import.meta.dirname, '..');
const describeIfCurl = spawnSync('curl', ['--version']).status === 0 ? describe : describe.skip;

/** Runs a command in the project root. Its environment is PATH and `env`. */
function run(
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<CommandResult> {
  const options = { cwd: ROOT, env: { PATH: process.env['PATH'], ...env } };
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
    app = await startApp({ features: [StubsModule, ...FEATURES] });
    env = { PETSTORE_URL: `${app.url}/v1`, PETSTORE_API_KEY: app.key };
  });
  afterAll(() => app.stop());

  describe('petstore.d.ts', () => {
    it('matches openapi.json (run `npm run openapi` to update)', async () => {
      const tool = join(ROOT, 'node_modules/openapi-typescript/bin/cli.js');
      const { code, stdout } = await run(process.execPath, [tool, 'openapi.json']);
      expect(code).toBe(0);
      expect(await readFile(join(ROOT, 'examples/petstore.d.ts'), 'utf8')).toBe(stdout);
    }, 60_000);
  });

  describe('client.ts', () => {
    it('creates, lists, revalidates and handles errors by code', async () => {
      const client = getBuiltFile('examples/client.js');
      const { code, stdout, stderr } = await run(process.execPath, [client], env);
      expect(stdout.split('\n')).toEqual([
        expect.stringMatching(/^Created \d+: dog$/),
        expect.stringMatching(/^Listed \d+, and unchanged: true$/),
        'Refused: VALIDATION_FAILED',
        '',
      ]);
      expect(stderr).not.toMatch(/^\s+at /m);
      expect(code).toBe(0);
      const unauthorized = await run(process.execPath, [client], {
        ...env,
        PETSTORE_API_KEY: 'wrong',
      });
      expect(unauthorized.code).toBe(1);
      expect(unauthorized.stderr).toContain('Set PETSTORE_API_KEY to a valid key.');
    }, 60_000);

    it('warns about a deprecated operation, with its sunset date', async () => {
      const warn = jest.spyOn(console, 'warn').mockReturnValue();
      try {
        const client = connect(`${app.url}/v1`, app.key);
        await client.GET('/categories');
        expect(warn).not.toHaveBeenCalled();
        await client.GET('/stubs/deprecated/1' as '/categories');
        expect(warn.mock.calls).toEqual([
          [
            expect.stringMatching(
              /^GET \S+\/stubs\/deprecated\/1 is deprecated and ends on Mon, 01 Nov 2027/,
            ),
          ],
        ]);
      } finally {
        warn.mockRestore();
      }
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
      // The last request calls a stub, which a team may have implemented.
      expect(stdout.match(/^\d{3}$/gm)?.slice(0, -1)).toEqual(['201', '200', '304', '400']);
      expect(stdout).toMatch(
        /^\{"id":\d+,"name":"dog","description":"Dogs of every breed and size"\}$/m,
      );
      expect(stdout).toContain('"code":"VALIDATION_FAILED"');
      expect((await run('bash', ['examples/curl.sh'])).stderr).toContain('Set PETSTORE_API_KEY');
    });
  });
});
