/* oxlint-disable jest/no-conditional-expect, jest/no-standalone-expect, jest/expect-expect -- the expectations depend on the generated input */
import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';
import type { ErrorCode } from '../../../src/platform/errors/error-codes.js';
import { createDatabase, type TestDatabase } from '../support/app.js';
import { CategoriesClient, type Category } from '../support/http-client.js';
import { type RawResponse, RawConnection, rawRequest } from '../support/raw-connection.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';

/** Runs per property. fast-check shrinks a failing example and reports the seed that reproduces it. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 400);
const TIMEOUT = 300_000 + RUNS * 100;

const TYPE = 'Content-Type: application/json';
const AUTHORIZATION = `Authorization: Bearer ${BOOTSTRAP_KEY}`;
/** The name of a category that always exists: a response to a request without a key must not contain it. */
const MARKER = `marker ${randomUUID()}`;

let database: TestDatabase;
let services: Services;
// A process of its own: it would end with any exception that is not caught.
let service: RunningService['service'];
let url: string;
let categories: CategoriesClient;
const agent = new Agent({ keepAlive: true });
/** Every category acknowledged with 201, in order: the expected list. */
const accepted: Category[] = [];

beforeAll(async () => {
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url });
  ({ service, url } = await services.serve());
  categories = new CategoriesClient(url, BOOTSTRAP_KEY, agent);
  accepted.push((await categories.create(MARKER)).json<Category>());
}, TIMEOUT);

afterAll(async () => {
  agent.destroy();
  await service.stop();
  const { code } = await service.exited;
  await services.close();
  await database.drop();
  // The process survived every request, and logged no error, and no warning but that of invalid keys.
  expect(code).toBe(0);
  expect(service.output).not.toMatch(/\b(ERROR|FATAL|WARN)\b(?! \[Authentication\])/);
});

/** Sends bytes on a new connection, half-closes it and returns every final response. */
async function send(bytes: Uint8Array): Promise<RawResponse[]> {
  const connection = await RawConnection.open(url);
  try {
    const responses = await connection.send(bytes).endWrites().closed();
    return responses.filter(({ status }) => status >= 200);
  } finally {
    connection.close();
  }
}

/** Expects the list to be exactly `accepted`. */
async function expectList(): Promise<void> {
  const { status, text } = await categories.list();
  expect(status).toBe(200);
  if (text === JSON.stringify(accepted)) return;
  // Shrinking runs smaller examples against the same database: continue from its current rows.
  const expected = accepted.splice(0, Infinity, ...(JSON.parse(text) as Category[]));
  expect(accepted).toEqual(expected);
}

/** Expects an Error body with any code of the table. The only 5xx allowed is 501 NOT_IMPLEMENTED. */
function expectError(response: Pick<RawResponse, 'status' | 'text'>): void {
  const { code } = JSON.parse(response.text) as { code: ErrorCode };
  expect(response).toBeError(code);
  if (response.status >= 500) expect(code).toBe('NOT_IMPLEMENTED');
}

/** Byte edits that corrupt a request. */
const edits = fc.array(
  fc.tuple(
    fc.constantFrom('replace', 'insert', 'delete', 'repeat', 'end'),
    fc.nat(2_000),
    fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 4 }),
      fc
        .constantFrom(...'\r\n|\n|\r|\0| |:|0\r\n\r\n|\r\n\r\n|"|}|%|\xff'.split('|'))
        .map((bytes) => Buffer.from(bytes, 'latin1')),
    ),
  ),
  { minLength: 1, maxLength: 4 },
);

function edit(bytes: Buffer, changes: readonly [string, number, Uint8Array][]): Buffer {
  return changes.reduce((edited, [operation, position, piece]) => {
    const at = position % (edited.length + 1);
    const [before, after] = [edited.subarray(0, at), edited.subarray(at)];
    switch (operation) {
      case 'replace':
        return Buffer.concat([before, piece, after.subarray(piece.length)]);
      case 'insert':
        return Buffer.concat([before, piece, after]);
      case 'delete':
        return Buffer.concat([before, after.subarray(piece.length)]);
      case 'repeat':
        return Buffer.concat([before, after.subarray(0, piece[0]), after]);
      default:
        return before;
    }
  }, bytes);
}

/** Checks a property with `RUNS` generated examples; a failing example is shrunk before it is reported. */
const checkProperty = <T extends [unknown, ...unknown[]]>(
  arbitraries: { [K in keyof T]: Arbitrary<T[K]> },
  check: (...values: T) => Promise<void>,
): Promise<void> => fc.assert(fc.asyncProperty(...arbitraries, check), { numRuns: RUNS });

/** Expects every response to be an error or a permitted success, and the list to have every created category. */
async function expectResponses(responses: readonly RawResponse[], hasKey: boolean): Promise<void> {
  for (const response of responses) {
    if (response.status >= 400) expectError(response);
    else if (response.status === 201) accepted.push(JSON.parse(response.text) as Category);
    if (!hasKey) expect(response.text).not.toContain(MARKER);
  }
  if (!hasKey) expect(responses.map(({ status }) => status)).not.toContain(201);
  await expectList();
}

const path = fc.oneof(
  fc.constantFrom('/v1/categories', '/v1/categories?x=1', '/v1/categories/', '/livez', '/docs'),
  fc.constantFrom('/docs/../v1/categories', '/v1/%2e%2e', '/%00', '/v1/%ff', '/%', '/__proto__'),
  fc.webPath().map((text) => `/v1/categories${text}`),
  fc.webUrl(),
  fc.string({ unit: 'binary' }),
);

const HEADER_NAMES =
  `Accept Accept-Encoding Authorization Connection Content-Encoding Content-Length
  Content-Type Cookie Expect Host If-Match If-None-Match Keep-Alive Origin Range Referer TE Trailer
  Transfer-Encoding Upgrade X-Forwarded-For X-Forwarded-Host X-HTTP-Method-Override X-Request-Id
  __proto__`.split(/\s+/);
const HEADER_VALUES = `0 1 -1 gzip chunked close keep-alive 100-continue * bytes=0- Bearer
  application/json PUT`.split(/\s+/);

const header = fc
  .tuple(
    fc.oneof(
      { arbitrary: fc.constantFrom(...HEADER_NAMES), weight: 4 },
      fc.string({ minLength: 1 }),
    ),
    fc.oneof(
      fc.constantFrom('', `Bearer ${BOOTSTRAP_KEY}x`, ...HEADER_VALUES),
      fc.string(),
      fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('latin1')),
    ),
  )
  .map(([name, value]) => `${name}: ${value}`);

describe('HTTP server', () => {
  it(
    'handles any path and headers, and denies access without a key',
    () =>
      checkProperty(
        // No HEAD: `RawConnection` expects a body of the length in Content-Length.
        [
          fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PURGE'),
          path,
          fc.array(header, { maxLength: 8 }),
          fc.boolean(),
          fc.boolean(),
        ],
        async (method, target, headers, hasKey, hasBody) => {
          const body = '{"name":"dog"}';
          const responses = await send(
            rawRequest({
              method,
              target,
              headers: [
                ...(hasKey ? [AUTHORIZATION] : []),
                ...(hasBody ? [TYPE, `Content-Length: ${body.length}`] : []),
                ...headers,
              ],
              body: hasBody ? body : '',
            }),
          );
          expect(responses.length).toBeGreaterThan(0);
          await expectResponses(responses, hasKey);
        },
      ),
    TIMEOUT,
  );

  it(
    'stores exactly the categories acknowledged with 201 when requests are corrupted',
    () =>
      checkProperty(
        [
          fc.array(fc.constantFrom('list', 'create', 'chunks'), { minLength: 1, maxLength: 4 }),
          edits,
        ],
        async (requestNames, changes) => {
          const body = '{"name":"dog","description":"a dog"}';
          const chunks = `5\r\n${body.slice(0, 5)}\r\n1f\r\n${body.slice(5)}\r\n0\r\n\r\n`;
          const headers = [AUTHORIZATION, TYPE];
          const post = (framing: string, bytes: string): Buffer =>
            rawRequest({ method: 'POST', headers: [...headers, framing], body: bytes });
          const requests = {
            list: rawRequest({ headers }),
            create: post(`Content-Length: ${body.length}`, body),
            chunks: post('Transfer-Encoding: chunked', chunks),
          };
          const bytes = edit(Buffer.concat(requestNames.map((name) => requests[name])), changes);
          await expectResponses(await send(bytes), true);
        },
      ),
    TIMEOUT,
  );
});
