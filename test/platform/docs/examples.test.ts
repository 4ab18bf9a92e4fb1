import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as sendUpstream, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { transform } from '@swc/core';
import { connect } from '../../../examples/client.js';
import { FEATURES } from '../../../src/features.js';
import { ApiError } from '../../../src/platform/errors/api-error.js';
import type { ErrorCode } from '../../../src/platform/errors/error-codes.js';
import { respondWithError } from '../../../src/platform/http/responses/error.filter.js';
import { startApp, type TestApp, useApp } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { type CommandResult, startProgram } from '../support/cli.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { listen, type TestServer } from '../support/server.js';
import { joinSnippets, readSnippets, splitOutput } from '../support/snippets.js';
import { StubsModule } from '../support/stubs.module.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;
const curl = requires('curl');

/** Runs a command, in the project by default, with PATH and `env` as its environment. */
const run = (command: string, args: string[], env = {}, cwd = '.'): Promise<CommandResult> =>
  startProgram(command, args, { env: { PATH: process.env['PATH'], ...env }, cwd }).result;

/** Responds with an error and Retry-After. */
const failWith = (code: ErrorCode, retryAfter: string) => (response: ServerResponse) => {
  const options = { headers: { 'Retry-After': retryAfter }, skipLog: true };
  respondWithError(new ApiError(code, 'Try again later.', options), response);
};

/** Starts a response, and closes the connection. */
function loseBody(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': '100' }).write('[', () => response.destroy());
}

/**
 * Starts a server that forwards requests to the service, but loses the response to the first one with each Idempotency-Key.
 */
function failFirstResponses(
  url: string,
  fail: (response: ServerResponse) => void,
): Promise<TestServer> {
  const seen = new Set<unknown>();
  return listen((incoming, response) => {
    const { method, headers } = incoming;
    const key = headers['idempotency-key'];
    const isFirst = key !== undefined && !seen.has(key);
    seen.add(key);
    const forwarded = sendUpstream(url + incoming.url, { method, headers }, (received) => {
      if (isFirst) return fail(response);
      response.writeHead(received.statusCode!, received.rawHeaders);
      return received.pipe(response);
    });
    incoming.pipe(forwarded);
  });
}

describe('the examples', () => {
  const app = useApp({ features: [StubsModule, ...FEATURES] });
  let env: Record<string, string>;
  beforeAll(() => {
    env = { API_URL: `${app.url}/v1`, API_KEY: app.key };
  });

  describe('client.ts', () => {
    it('creates, lists, revalidates and handles errors by code', async () => {
      const client = getBuiltFile('examples/client.js');
      const { code, stdout, stderr } = await run(process.execPath, [client], env);
      expect(stdout.split('\n')).toEqual([
        expect.stringMatching(/^Created \d+: dog$/),
        expect.stringMatching(/^Listed \d+, and unchanged: true$/),
        'Rejected: VALIDATION_FAILED',
        '',
      ]);
      expect(stderr).not.toMatch(/^\s+at /m);
      expect(code).toBe(0);
      const unauthorized = await run(process.execPath, [client], { ...env, API_KEY: 'wrong' });
      expect(unauthorized.code).toBe(1);
      expect(unauthorized.stderr).toContain('Set API_KEY to a valid key.');
    });

    it('warns once about a deprecated operation, with its sunset date', async () => {
      const warn = jest.spyOn(console, 'warn').mockReturnValue();
      const client = connect(`${app.url}/v1`, app.key);
      await client.GET('/categories');
      expect(warn).not.toHaveBeenCalled();
      for (let n = 0; n < 2; n++) await client.GET('/stubs/deprecated/1' as '/categories');
      const warning = /^GET \/stubs\/deprecated\/1 is deprecated and ends on Mon, 01 Nov 2027/;
      expect(warn.mock.calls).toEqual([[expect.stringMatching(warning)]]);
      warn.mockRestore();
    });

    describe('client.ts with a server that fails at first', () => {
      let server: TestServer;
      let client: ReturnType<typeof connect>;
      let keys: unknown[];
      let fail: (response: ServerResponse) => void;
      beforeAll(async () => {
        server = await listen(({ method, headers }, response) => {
          keys.push(headers['idempotency-key']);
          response.setHeader('Content-Type', 'application/json');
          if (keys.length < 3) fail(response);
          else response.end(method === 'GET' ? '[]' : '{"id":1,"name":"dog"}');
        });
        client = connect(`${server.url}/v1`, 'key', { firstDelay: 10 });
      });
      beforeEach(() => (keys = []));
      afterAll(() => server.close());

      it.each<[string, (response: ServerResponse) => void]>([
        ['429', failWith('TOO_MANY_REQUESTS', '0')],
        ['503', failWith('SERVICE_UNAVAILABLE', '0')],
        ['a lost connection', (response) => response.destroy()],
        ['a connection that is lost while the body arrives', loseBody],
      ])(
        'retries after %s, a create request with the same Idempotency-Key',
        async (_name, failure) => {
          fail = failure;
          expect((await client.GET('/categories')).data).toEqual([]);
          expect(keys).toEqual([undefined, undefined, undefined]);
          keys = [];
          for (let n = 0; n < 2; n++) {
            const { data } = await client.POST('/categories', { body: { name: 'dog' } });
            expect(data).toEqual({ id: 1, name: 'dog' });
          }
          const [key, other] = new Set(keys);
          expect(keys).toEqual([key, key, key, other]);
          expect(other).toMatch(/^[0-9a-f-]{36}$/);
        },
      );

      it('returns the error if the deadline would pass while it waits', async () => {
        fail = failWith('TOO_MANY_REQUESTS', '60');
        const impatient = connect(`${server.url}/v1`, 'key', { deadline: 30_000 });
        expect((await impatient.GET('/categories')).error?.code).toBe('TOO_MANY_REQUESTS');
        expect(keys).toHaveLength(1);
      });
    });

    it('creates one category if the packets with the first response are dropped', async () => {
      const name = 'dropped';
      const proxy = await ChaosProxy.listen(app.url, 500);
      try {
        const retry = { attemptTimeout: 1_500, firstDelay: 10 };
        const client = connect(`${proxy.proxiedUrl(app.url)}v1`, app.key, retry);
        const creating = client.POST('/categories', { body: { name } });
        const getCount = async (): Promise<number> =>
          (await app.categories.getNames()).filter((other) => other === name).length;
        await waitFor(getCount, (count) => count > 0);
        proxy.blackhole();
        const { response } = await creating;
        expect(response.status).toBe(201);
        expect(response.headers.get('Idempotency-Replayed')).toBe('true');
        expect(await getCount()).toBe(1);
      } finally {
        await proxy.close();
      }
    });
  });

  curl.describe('curl.sh', () => {
    const STATUSES = ['201', '200', '304', '400'];

    it('prints every response and its status', async () => {
      const { code, stdout, stderr } = await run('bash', ['examples/curl.sh'], env);
      expect([code, stderr, stdout.match(/^\d{3}$/gm)]).toEqual([0, '', STATUSES]);
      expect(stdout).toMatch(/^\{"id":\d+,"name":"dog","description":"Dogs of every .*"\}$/m);
      expect(stdout).toContain('"code":"VALIDATION_FAILED"');
      expect((await run('bash', ['examples/curl.sh'])).stderr).toContain('Set API_KEY');
    });

    it('creates one category, and prints each response once, after 429 and a lost connection', async () => {
      const before = await app.categories.getNames();
      const failures = [failWith('TOO_MANY_REQUESTS', '1'), loseBody];
      const server = await failFirstResponses(app.url, (response) => failures.shift()!(response));
      const flaky = { ...env, API_URL: `${server.url}/v1` };
      const { code, stdout } = await run('bash', ['examples/curl.sh'], flaky);
      server.close();
      expect([code, stdout.match(/^\d{3}$/gm)]).toEqual([0, STATUSES]);
      expect(failures).toEqual([]);
      expect(stdout.split('"code"')).toHaveLength(2);
      expect(await app.categories.getNames()).toEqual([...before, 'dog']);
    });
  });
});

describe('docs/clients.md', () => {
  const page = 'docs/clients.md';
  let app: TestApp;
  let server: TestServer;
  let env: Record<string, string>;
  let directory: string;
  beforeEach(async () => {
    app = await startApp();
    server = await failFirstResponses(app.url, (response) => response.destroy());
    env = { API_URL: `${server.url}/v1`, API_KEY: app.key };
    directory = await mkdtemp(join(tmpdir(), 'petstore-snippets-'));
  });
  afterEach(async () => {
    server.close();
    await app.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it.each(commandSucceeds('curl') ? (['sh', 'ts'] as const) : (['ts'] as const))(
    'shows what its %s snippets print, also if responses are lost',
    async (language) => {
      const snippets = await readSnippets(page, language);
      const program = joinSnippets(snippets, language);
      const file = getBuiltFile('examples/clients-guide.js');
      if (language === 'ts') {
        const jsc = { target: 'es2022', parser: { syntax: 'typescript' } } as const;
        await writeFile(file, (await transform(program, { jsc })).code);
      }
      const { code, stdout, stderr } =
        language === 'ts'
          ? await run(process.execPath, [file], env)
          : await run('bash', ['--norc', '-c', `set -euo pipefail\n${program}`], env, directory);
      expect(splitOutput(stdout)).toEqual(snippets.map(({ output }) => output));
      expect(snippets.length).toBeGreaterThan(3);
      const curlErrors = /^(curl: \(52\) Empty reply from server\n)+$/;
      expect(stderr).toMatch(language === 'ts' ? /^$/ : curlErrors);
      expect(code).toBe(0);
    },
  );
});
