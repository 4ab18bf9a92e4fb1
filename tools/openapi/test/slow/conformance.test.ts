import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkConformance } from '../../conformance.js';
import { startApp, type TestApp } from '../../../../test/support/app.js';
import { sendRequest } from '../../../../test/support/http-client.js';

type StringHeaders = Record<string, string>;

/** A request or response that the proxy forwards; the status of a request is 0. */
interface Message {
  readonly status: number;
  readonly headers: StringHeaders;
  readonly body: string;
}

/** Changes that the proxy makes to requests and responses to violate the OpenAPI document. */
interface Mutation {
  readonly request?: (request: Message) => Partial<Message>;
  readonly response?: (response: Message) => Partial<Message>;
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
let mutations: readonly Mutation[];
/** The methods of the proxied requests. */
let methods: string[];

/** Applies the mutations of requests or of responses. */
function mutate(kind: keyof Mutation, message: Message): Message {
  const mutated = { ...message };
  for (const { [kind]: change } of mutations) Object.assign(mutated, change?.(mutated));
  return mutated;
}

beforeAll(async () => {
  app = await startApp();
  await app.categories.create('dog');
  directory = await mkdtemp(join(tmpdir(), 'petstore-conformance-'));
  proxy = createServer((incoming, outgoing) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const method = incoming.method!;
      methods.push(method);
      const request = mutate('request', {
        status: 0,
        // Mutations work on text, so the response must not be compressed.
        headers: { ...(incoming.headers as StringHeaders), 'accept-encoding': 'identity' },
        body: Buffer.concat(chunks).toString(),
      });
      const upstream = await sendRequest(app.url + incoming.url!, { ...request, method });
      const { 'content-length': _length, ...headers } = upstream.headers as StringHeaders;
      const response = mutate('response', {
        status: upstream.status,
        headers,
        body: upstream.text,
      });
      outgoing.writeHead(response.status, response.headers).end(response.body);
    })();
  });
  // The client could otherwise reuse a connection at the moment in which the proxy closes it.
  proxy.keepAliveTimeout = 0;
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});
afterAll(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await app.stop();
  await rm(directory, { recursive: true });
});

/** Runs the checks through the proxy; `failures` lists failed checks as `step: check`. */
async function runChecks(
  options: { mutations?: readonly Mutation[]; readOnly?: boolean } = {},
): Promise<{ code: number; text: string; checks: string[]; failures: string[] }> {
  const { readOnly = false } = options;
  ({ mutations = [] } = options);
  methods = [];
  const report = join(directory, 'report.json');
  const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/v1`;
  const code = await checkConformance({ baseUrl, key: app.key, report, readOnly }, 'ignore');
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
    checks: checks.map(({ step }) => step),
    failures: checks.filter(({ passed }) => !passed).map(({ step }) => step),
  };
}

describe('conformance check', () => {
  it('passes against the service and creates categories with recognizable names', async () => {
    const before = await app.categories.getNames();
    const { code, text, checks, failures } = await runChecks();
    expect({ code, failures }).toEqual({ code: 0, failures: [] });
    expect(checks).toEqual(
      expect.arrayContaining(['list: schema check', 'list-created: success criteria check']),
    );
    expect(methods).toEqual(expect.arrayContaining(['GET', 'POST']));
    const created = (await app.categories.getNames()).slice(before.length);
    expect(created).toEqual([expect.stringMatching(/^Conformance check \d{4}-\d\d-\d\dT/)]);
    expect(text).not.toContain(app.key);
  });

  it('sends only GET requests with --read-only', async () => {
    const before = await app.categories.getNames();
    const { code, checks } = await runChecks({ readOnly: true });
    expect(code).toBe(0);
    expect(checks).toContain('list: schema check');
    expect(new Set(methods)).toEqual(new Set(['GET']));
    expect(await app.categories.getNames()).toEqual(before);
  });

  it('fails if the service is unreachable', async () => {
    const options = { baseUrl: 'http://127.0.0.1:9/v1', key: app.key, readOnly: true };
    expect(await checkConformance(options, 'ignore')).toBe(1);
  });
});

type Violation = readonly [name: string, mutation: Mutation, failure: string];

const isList = (body: string): boolean => body.startsWith('[');

// A run takes seconds, so it has several violations. A failed step ends its workflow.
const FIRST_RUN: readonly Violation[] = [
  [
    'a wrong status',
    { response: ({ status }) => ({ status: status === 201 ? 200 : status }) },
    'create: success criteria check',
  ],
  [
    'an additional property in the error body',
    { response: ({ body }) => ({ body: body.replace('{"code":', '{"trace":"here","code":') }) },
    'list-no-key: schema check',
  ],
  [
    'an error body whose status differs from the response status',
    { response: ({ body }) => ({ body: body.replace('"status":401', '"status":403') }) },
    'list-no-key: success criteria check',
  ],
  [
    'string ids',
    {
      response: ({ body }) =>
        isList(body) ? { body: body.replaceAll(/"id":(\d+)/g, '"id":"$1"') } : {},
    },
    'list: schema check',
  ],
  [
    'a wrong content type',
    {
      response: ({ status, headers }) =>
        status === 400 ? { headers: { ...headers, 'content-type': 'text/html' } } : {},
    },
    'missing-name: content-type check',
  ],
];
const SECOND_RUN: readonly Violation[] = [
  [
    'a list that omits created categories',
    { response: ({ body }) => (isList(body) ? { body: '[]' } : {}) },
    'list-created: success criteria check',
  ],
  [
    'no 401 for a missing key',
    {
      request: ({ headers }) => ({ headers: { ...headers, authorization: `Bearer ${app.key}` } }),
    },
    'list-no-key: success criteria check',
  ],
  [
    'no ETag header',
    { response: ({ headers: { etag: _etag, ...headers } }) => ({ headers }) },
    'list: success criteria check',
  ],
];

describe.each([{ violations: FIRST_RUN }, { violations: SECOND_RUN }])(
  'conformance check of a service that violates the OpenAPI document',
  ({ violations }) => {
    let code: number;
    let failures: string[];
    beforeAll(async () => {
      ({ code, failures } = await runChecks({
        mutations: violations.map(([, mutation]) => mutation),
      }));
    });

    it.each(violations)('reports %s', (_name, _mutation, failure) => {
      expect(failures).toContain(failure);
      expect(code).toBe(1);
    });
  },
);
