import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkConformance } from '../../conformance.js';
import { startApp, type TestApp } from '../../../../test/platform/support/app.js';
import { sendRequest } from '../../../../test/platform/support/http-client.js';

/** A response that the proxy forwards. */
interface Response {
  status: number;
  body: string;
  readonly headers: Record<string, string>;
}

let app: TestApp;
let directory: string;
let proxy: Server;
/** Changes each response, to violate the OpenAPI document. */
let violate: (response: Response) => void;
/** The methods of the proxied requests. */
let methods: Set<string>;

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const method = incoming.method!;
  methods.add(method);
  const { status, headers, text } = await sendRequest(app.url + incoming.url!, {
    method,
    // The violations change text, so the response must not be compressed.
    headers: { ...(incoming.headers as Response['headers']), 'accept-encoding': 'identity' },
    body: Buffer.concat(chunks).toString(),
  });
  const { 'content-length': _length, ...others } = headers as Response['headers'];
  const response: Response = { status, headers: others, body: text };
  violate(response);
  outgoing.writeHead(response.status, response.headers).end(response.body);
}

beforeAll(async () => {
  app = await startApp();
  await app.categories.create('dog');
  directory = await mkdtemp(join(tmpdir(), 'petstore-conformance-'));
  proxy = createServer((incoming, outgoing) => void forward(incoming, outgoing));
  // The client could otherwise reuse a connection at the moment in which the proxy closes it.
  proxy.keepAliveTimeout = 0;
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});
beforeEach(() => {
  violate = () => {};
  methods = new Set();
});
afterAll(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await app.stop();
  await rm(directory, { recursive: true });
});

/** Runs the checks through the proxy. @returns the exit code, the report, and failed checks as `step: check` */
async function runChecks(
  readOnly = false,
): Promise<{ code: number; text: string; failures: string[] }> {
  const report = join(directory, 'report.json');
  const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/v1`;
  const code = await checkConformance({ baseUrl, key: app.key, report, readOnly }, 'ignore');
  const text = await readFile(report, 'utf8');
  const failures: string[] = [];
  JSON.parse(text, (_key, step: { stepId?: string; checks?: Check[] }) => {
    for (const { name, passed } of step?.checks ?? [])
      if (!passed) failures.push(`${step.stepId}: ${name}`);
    return step;
  });
  return { code, text, failures };
}

interface Check {
  readonly name: string;
  readonly passed: boolean;
}

describe('conformance check', () => {
  it('passes against the service and creates a category with a recognizable name', async () => {
    const before = await app.categories.getNames();
    const { code, text, failures } = await runChecks();
    expect({ code, failures }).toEqual({ code: 0, failures: [] });
    expect(text).toContain('schema check');
    expect(text).not.toContain(app.key);
    const created = (await app.categories.getNames()).slice(before.length);
    expect(created).toEqual([expect.stringMatching(/^Conformance check \d{4}-\d\d-\d\dT/)]);
  });

  it('sends only GET requests with --read-only', async () => {
    expect((await runChecks(true)).code).toBe(0);
    expect(methods).toEqual(new Set(['GET']));
  });

  it('fails if the service is unreachable', async () => {
    const options = { baseUrl: 'http://127.0.0.1:9/v1', key: app.key, readOnly: true };
    expect(await checkConformance(options, 'ignore')).toBe(1);
  });

  it.each<[violation: string, violate: (response: Response) => void, failure: string]>([
    [
      'a wrong status',
      (response) => (response.status = response.status === 201 ? 200 : response.status),
      'create: success criteria check',
    ],
    [
      'an additional property in the error body',
      (response) => (response.body = response.body.replace('{"code":', '{"trace":"a","code":')),
      'list-no-key: schema check',
    ],
    [
      'an error body whose status differs from the response status',
      (response) => (response.body = response.body.replace('"status":401', '"status":403')),
      'list-no-key: success criteria check',
    ],
    [
      'string ids',
      (response) => (response.body = response.body.replaceAll(/"id":(\d+)/g, '"id":"$1"')),
      'list: schema check',
    ],
    [
      'a wrong content type',
      ({ headers }) => (headers['content-type'] = 'text/html'),
      'missing-name: content-type check',
    ],
    [
      'a list that omits created categories',
      (response) => (response.body = response.body.replace(/^\[.*\]$/, '[]')),
      'list-created: success criteria check',
    ],
    ['no ETag header', ({ headers }) => delete headers['etag'], 'list: success criteria check'],
  ])('reports %s', async (_violation, change, failure) => {
    violate = change;
    const { code, failures } = await runChecks();
    expect(failures).toContain(failure);
    expect(code).toBe(1);
  });
});
