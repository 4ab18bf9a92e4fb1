import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkConformance } from '../conformance/run.js';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest } from './support/http-client.js';

/** What stands between the check and the service, and breaks the interface. */
interface Breakage {
  readonly request?: (headers: Record<string, string>) => Record<string, string>;
  readonly status?: (status: number) => number;
  readonly headers?: (headers: Record<string, unknown>) => Record<string, unknown>;
  readonly body?: (body: string) => string;
}

interface Report {
  readonly files: Readonly<
    Record<
      string,
      {
        readonly executedWorkflows: readonly {
          readonly executedSteps: readonly {
            readonly stepId: string;
            readonly checks: readonly { readonly name: string; readonly passed: boolean }[];
          }[];
        }[];
      }
    >
  >;
}

let app: TestApp;
let directory: string;
let proxy: Server;
let breakage: Breakage;
/** The methods of the requests that came through. */
let methods: string[];

beforeAll(async () => {
  app = await startApp();
  directory = await mkdtemp(join(tmpdir(), 'petstore-conformance-'));
  proxy = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      methods.push(request.method!);
      // What comes must be text, for it to be broken.
      const sent = { ...request.headers, 'accept-encoding': 'identity' } as Record<
        string,
        unknown
      > as Record<string, string>;
      const answer = await sendRequest(app.url + request.url!, {
        method: request.method!,
        headers: breakage.request?.(sent) ?? sent,
        body: Buffer.concat(chunks),
      });
      const {
        'content-length': _length,
        'content-encoding': _encoding,
        ...headers
      } = answer.headers;
      response.writeHead(
        breakage.status?.(answer.status) ?? answer.status,
        (breakage.headers?.(headers) ?? headers) as Record<string, string>,
      );
      const body = answer.body.toString();
      response.end(breakage.body?.(body) ?? body);
    })();
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});
beforeEach(() => {
  methods = [];
  breakage = {};
});
afterAll(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await app.stop();
  await rm(directory, { recursive: true });
});

/** Checks the service through the proxy, and gives the exit code and what failed: its step and check. */
async function check(options: { readOnly?: boolean } = {}): Promise<{
  code: number;
  text: string;
  checks: number;
  failures: string[];
}> {
  const report = join(directory, 'report.json');
  const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/v1`;
  const code = await checkConformance({ baseUrl, key: app.key, report, ...options }, 'ignore');
  const text = await readFile(report, 'utf8');
  const checks = Object.values((JSON.parse(text) as Report).files).flatMap((file) =>
    file.executedWorkflows.flatMap(({ executedSteps }) =>
      executedSteps.flatMap(({ stepId, checks: made }) =>
        made.map(({ name, passed }) => ({ step: `${stepId}: ${name}`, passed })),
      ),
    ),
  );
  return {
    code,
    text,
    checks: checks.length,
    failures: checks.filter(({ passed }) => !passed).map(({ step }) => step),
  };
}

async function names(): Promise<string[]> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return (body as { name: string }[]).map(({ name }) => name);
}

describe('The conformance check', () => {
  it('finds nothing wrong with the service, and names what it creates', async () => {
    const { code, text, checks, failures } = await check();
    expect({ code, failures }).toEqual({ code: 0, failures: [] });
    expect(checks).toBeGreaterThan(150);
    expect(new Set(methods)).toEqual(new Set(['GET', 'POST']));
    const created = await names();
    expect(created).toHaveLength(2);
    for (const name of created) expect(name).toMatch(/^Conformance check \d{4}-\d\d-\d\dT/);
    expect(text).not.toContain(app.key);
  });

  it('sends nothing but GET with --read-only', async () => {
    const before = await names();
    const { code, checks } = await check({ readOnly: true });
    expect(code).toBe(0);
    expect(checks).toBeGreaterThan(50);
    expect(methods.length).toBeGreaterThan(5);
    expect(new Set(methods)).toEqual(new Set(['GET']));
    expect(await names()).toEqual(before);
  });

  it.each<[string, Breakage, string]>([
    [
      'a wrong status',
      { status: (status) => (status === 201 ? 200 : status) },
      'create: success criteria check',
    ],
    [
      'a key too many in the error body',
      { body: (body) => body.replace('{"code":', '{"trace":"here","code":') },
      'list-no-key: schema check',
    ],
    [
      'ids that are strings',
      { body: (body) => body.replaceAll(/"id":(\d+)/g, '"id":"$1"') },
      'create: schema check',
    ],
    [
      'no 401',
      { request: (headers) => ({ ...headers, authorization: `Bearer ${app.key}` }) },
      'list-no-key: success criteria check',
    ],
    [
      'a wrong content type',
      { headers: (headers) => ({ ...headers, 'content-type': 'text/html' }) },
      'list: content-type check',
    ],
    [
      'no Sunset header',
      { headers: ({ sunset: _sunset, ...headers }) => headers },
      'deprecated-pet: success criteria check',
    ],
    [
      'a status in the error body that is not that of the answer',
      { body: (body) => body.replace('"status":401', '"status":403') },
      'list-no-key: success criteria check',
    ],
    [
      'a list without what was created',
      { body: (body) => (body.startsWith('[') ? '[]' : body) },
      'list-created: success criteria check',
    ],
  ])('fails on a service with %s', async (_what, broken, failure) => {
    breakage = broken;
    const { code, failures } = await check();
    expect(code).toBe(1);
    expect(failures).toContain(failure);
  });

  it('fails where nothing answers', async () => {
    const code = await checkConformance(
      { baseUrl: 'http://127.0.0.1:9/v1', key: app.key },
      'ignore',
    );
    expect(code).toBe(1);
  });
});
