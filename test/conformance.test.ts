import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkConformance } from '../conformance/run.js';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest } from './support/http-client.js';

/** Changes that the proxy makes to requests and responses to violate the OpenAPI document. */
interface ResponseMutation {
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
let mutation: ResponseMutation;
/** The methods of the proxied requests. */
let methods: string[];

beforeAll(async () => {
  app = await startApp();
  directory = await mkdtemp(join(tmpdir(), 'petstore-conformance-'));
  proxy = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      methods.push(request.method!);
      // Mutations work on text, so the response must not be compressed.
      const forwarded = { ...request.headers, 'accept-encoding': 'identity' } as Record<
        string,
        unknown
      > as Record<string, string>;
      const upstream = await sendRequest(app.url + request.url!, {
        method: request.method!,
        headers: mutation.request?.(forwarded) ?? forwarded,
        body: Buffer.concat(chunks),
      });
      const {
        'content-length': _length,
        'content-encoding': _encoding,
        ...headers
      } = upstream.headers;
      response.writeHead(
        mutation.status?.(upstream.status) ?? upstream.status,
        (mutation.headers?.(headers) ?? headers) as Record<string, string>,
      );
      const body = upstream.body.toString();
      response.end(mutation.body?.(body) ?? body);
    })();
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});
beforeEach(() => {
  methods = [];
  mutation = {};
});
afterAll(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await app.stop();
  await rm(directory, { recursive: true });
});

/** Runs the checks through the proxy; `failures` lists failed checks as `step: check`. */
async function runChecks(options: { readOnly?: boolean } = {}): Promise<{
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
      executedSteps.flatMap(({ stepId, checks: stepChecks }) =>
        stepChecks.map(({ name, passed }) => ({ step: `${stepId}: ${name}`, passed })),
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

async function listNames(): Promise<string[]> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return (body as { name: string }[]).map(({ name }) => name);
}

describe('conformance check', () => {
  it('passes against the service and creates categories with recognizable names', async () => {
    const { code, text, checks, failures } = await runChecks();
    expect({ code, failures }).toEqual({ code: 0, failures: [] });
    expect(checks).toBeGreaterThan(150);
    expect(new Set(methods)).toEqual(new Set(['GET', 'POST']));
    const created = await listNames();
    expect(created).toHaveLength(2);
    for (const name of created) expect(name).toMatch(/^Conformance check \d{4}-\d\d-\d\dT/);
    expect(text).not.toContain(app.key);
  });

  it('sends only GET requests with --read-only', async () => {
    const before = await listNames();
    const { code, checks } = await runChecks({ readOnly: true });
    expect(code).toBe(0);
    expect(checks).toBeGreaterThan(50);
    expect(methods.length).toBeGreaterThan(5);
    expect(new Set(methods)).toEqual(new Set(['GET']));
    expect(await listNames()).toEqual(before);
  });

  it.each<[string, ResponseMutation, string]>([
    [
      'a wrong status',
      { status: (status) => (status === 201 ? 200 : status) },
      'create: success criteria check',
    ],
    [
      'an additional property in the error body',
      { body: (body) => body.replace('{"code":', '{"trace":"here","code":') },
      'list-no-key: schema check',
    ],
    [
      'string ids',
      { body: (body) => body.replaceAll(/"id":(\d+)/g, '"id":"$1"') },
      'create: schema check',
    ],
    [
      'no 401 for a missing key',
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
      'an error body whose status differs from the response status',
      { body: (body) => body.replace('"status":401', '"status":403') },
      'list-no-key: success criteria check',
    ],
    [
      'a list that omits created categories',
      { body: (body) => (body.startsWith('[') ? '[]' : body) },
      'list-created: success criteria check',
    ],
  ])('fails on a service with %s', async (_case, responseMutation, failure) => {
    mutation = responseMutation;
    const { code, failures } = await runChecks();
    expect(code).toBe(1);
    expect(failures).toContain(failure);
  });

  it('fails if the service is unreachable', async () => {
    const code = await checkConformance(
      { baseUrl: 'http://127.0.0.1:9/v1', key: app.key },
      'ignore',
    );
    expect(code).toBe(1);
  });
});
