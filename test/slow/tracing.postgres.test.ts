import { execFile } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createDatabase, type TestDatabase } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { listen, type TestServer } from '../support/server.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const ROOT = join(import.meta.dirname, '..', '..');
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const SPAN_ID = 'b7ad6b7169203331';
const SERVER_KIND = 2;

interface Span {
  readonly name: string;
  readonly attributes: readonly { key: string; value: object }[];
}

/** What the SDK exports (https://opentelemetry.io/docs/specs/otlp/#otlphttp). */
interface Export {
  readonly resourceSpans: readonly { scopeSpans: readonly { spans: readonly Span[] }[] }[];
}

const spans: Span[] = [];
let receiver: TestServer;
let database: TestDatabase;
let services: Services;
/** The command of the guide that starts the service. */
let command: string;
beforeAll(async () => {
  receiver = await listen((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const { resourceSpans } = JSON.parse(body) as Export;
      spans.push(
        ...resourceSpans.flatMap((each) => each.scopeSpans.flatMap((scope) => scope.spans)),
      );
      response.end('{}');
    });
  });
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url });
  const { directory } = services;
  for (const name of ['package.json', 'package-lock.json', '.npmrc', 'deploy'])
    await cp(join(ROOT, name), join(directory, name), { recursive: true });
  await cp(getBuiltFile('src'), join(directory, 'dist'), { recursive: true });
  const guide = await readFile(join(ROOT, 'docs', 'operations.md'), 'utf8');
  const [, install, start] = /^(npm install .*)\n(OTEL_.* dist\/main\.js)$/m.exec(guide)!;
  // Settings of the registry apply; the rest belongs to the npm of this process.
  const inherited = Object.entries(process.env).filter(([name]) =>
    /^(HOME|PATH|npm_config_(registry|cache|userconfig|cafile)|NODE_EXTRA_CA_CERTS)$/.test(name),
  );
  const env = Object.fromEntries(inherited);
  await promisify(execFile)('sh', ['-c', install!], { cwd: directory, env });
  command = start!.replace('http://127.0.0.1:4318', receiver.url).replace(' node ', ' exec node ');
}, 1_800_000);
afterAll(async () => {
  await services.close();
  await database.drop();
  receiver.close();
});

const find = (text: string): Span | undefined =>
  spans.find((span) => JSON.stringify(span).includes(text));

describe('the command of the guide for traces', () => {
  it('exports spans of requests and statements, and puts the id of the trace into log lines', async () => {
    const service = services.start({
      execPrefix: ['sh', '-c', command],
      env: {
        NODE_ENV: 'production',
        LOG_LEVEL: 'debug',
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
        OTEL_BSP_SCHEDULE_DELAY: '100',
      },
    });
    const url = await service.waitUntilListening();
    const response = await sendRequest(`${url}/v1/categories`, {
      method: 'POST',
      headers: { ...jsonHeaders(BOOTSTRAP_KEY), traceparent: `00-${TRACE_ID}-${SPAN_ID}-01` },
      body: '{"name":"dog"}',
    });
    expect(response.status).toBe(201);
    const span = await waitFor(() => find('"name":"POST /v1/categories"'));
    expect(span).toMatchObject({ traceId: TRACE_ID, parentSpanId: SPAN_ID, kind: SERVER_KIND });
    const attributes = span!.attributes.map(({ key, value }) => [key, Object.values(value)[0]]);
    expect(Object.fromEntries(attributes)).toMatchObject({
      'http.route': '/v1/categories',
      'http.response.status_code': 201,
    });
    expect(await waitFor(() => find('INSERT INTO \\"categories\\"'))).toMatchObject({
      traceId: TRACE_ID,
    });
    const line = await waitFor(() =>
      service.stdout.split('\n').find((each) => each.includes('POST /v1/categories 201')),
    );
    expect(JSON.parse(line!)).toMatchObject({
      trace_id: TRACE_ID,
      requestId: expect.any(String) as string,
    });
    await service.stop();
  });
});
