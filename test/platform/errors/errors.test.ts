import { createReadStream } from 'node:fs';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import {
  BadGatewayException,
  Controller,
  Get,
  ConflictException,
  GoneException,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  Param,
  Res,
  StreamableFile,
  UnprocessableEntityException,
} from '@nestjs/common';
import type { Response as ExpressResponse } from 'express';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import type { ErrorCode } from '../../../src/platform/errors/error-codes.js';
import { ApiError, Feature } from '../../../src/platform/index.js';
import { useApp } from '../support/app.js';
import { type HttpResponse, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { RawConnection, type RawResponse, rawRequest, sendRaw } from '../support/raw-connection.js';
import { StubsModule } from '../support/stubs.module.js';

/** A message that handlers throw and that responses must not contain. */
const SECRET = 'internal details';
const INTERNAL_ERROR_MESSAGE = 'Internal server error. Include the X-Request-Id when reporting it.';

const circular: Record<string, unknown> = {};
circular['self'] = circular;

const fail = (error: unknown) => (): never => {
  throw error;
};

/** Unexpected failures of a handler, which cause a 500. */
const CRASHES: Record<string, (response: ExpressResponse) => unknown> = {
  'an Error': fail(new Error(SECRET)),
  null: () => Promise.reject(null),
  'an object': fail({ code: 'EVIL', message: SECRET, status: 'none' }),
  'the 404 of another service': fail(
    Object.assign(new Error(SECRET), { status: 404, statusCode: 404, expose: true }),
  ),
  'an exception of Nest with an invalid status': fail(new HttpException(SECRET, 4_000)),
  'an exception of Nest': fail(new InternalServerErrorException(SECRET)),
  'a file that cannot be read': () =>
    new StreamableFile(createReadStream(`/${SECRET}`), { disposition: 'attachment', length: 9 }),
  'a circular response body': () => circular,
};
/** Failures with a status, and failures after the handler has begun to respond. */
const FAILURES: typeof CRASHES = {
  404: fail(new NotFoundException('Toy 7 not found.')),
  413: fail(new HttpException(`no${'"ä🪀\u0001'.repeat(10_000)}`, 413)),
  409: fail(new ConflictException('The loan is closed.')),
  410: fail(new GoneException('The book was sold.')),
  418: fail(new HttpException('I am a teapot.', 418)),
  422: fail(new UnprocessableEntityException('The date is in the past.')),
  502: fail(new BadGatewayException('The bank is down.')),
  503: fail(new ApiError('SERVICE_UNAVAILABLE', 'Back soon.', { headers: { 'Retry-After': '7' } })),
  'after-headers': (response) => {
    const headers = { ETag: '"x"', 'Content-Encoding': 'gzip', 'Content-Type': 'text/html' };
    response.status(201).set({ ...headers, 'Content-Length': '3', 'Cache-Control': 'public' });
    throw new Error(SECRET);
  },
  'during-response': (response) => {
    response.status(200).set('Content-Length', '100').write('part of ');
    throw new Error(SECRET);
  },
  'after-response': (response) => {
    response.status(200).json({ done: true });
    throw new Error(SECRET);
  },
};

@Controller('crash')
class CrashController {
  @Get(':crash')
  crash(
    @Param('crash') crash: string,
    @Res({ passthrough: true }) response: ExpressResponse,
  ): unknown {
    return { ...CRASHES, ...FAILURES }[crash]!(response);
  }
}

@Feature({ tag: { name: 'crash', description: 'Failures.' }, controllers: [CrashController] })
class CrashModule {}

/** Another limit than the default. */
const BODY_LIMIT = 51_200;

const logger = new MemoryLogger();
const app = useApp({
  features: [CategoriesModule, CrashModule, StubsModule],
  config: { bodyLimit: BODY_LIMIT },
  logger,
});

const get = (path: string, key = app.key): Promise<HttpResponse> => app.send('GET', path, { key });

/** Sends a create request with exactly these bytes as its body. */
const post = (body: string | Buffer, headers = {}): Promise<HttpResponse> =>
  app.send('POST', '/v1/categories', { headers, body });

/** Encodes each character as one byte, so that `\xff` is invalid UTF-8. */
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Sends exactly these bytes on a connection, with the key, and returns the responses once it is closed. */
const sendPost = (headers: string[], body: string | Buffer = ''): Promise<RawResponse[]> => {
  const all = [`Authorization: Bearer ${app.key}`, 'Connection: close', ...headers];
  return sendRaw(app.url, rawRequest({ method: 'POST', headers: all, body }));
};

const CATEGORY = '{"name":"dog"}';
const TYPE = 'Content-Type: application/json';
const CHUNKED = 'Transfer-Encoding: chunked';
const padded = (length: number): string => CATEGORY.padEnd(length);
const nested = (property: string, open: string, close: string, depth: number): string =>
  `{"${property}":${open.repeat(depth - 1)}1${close.repeat(depth - 1)}}`;
const encoded = (encoding: string): Record<string, string> => ({ 'content-encoding': encoding });
const typed = (type: string): Record<string, string> => ({ 'content-type': type });

type Body = string | Buffer;
type Rule = [ErrorCode, message: string | RegExp];
const NO_BODY: Rule = ['VALIDATION_FAILED', 'request body is required.'];
const NO_OBJECT: Rule = ['VALIDATION_FAILED', 'the body must be a JSON object.'];
const NO_JSON: Rule = ['MALFORMED_JSON', 'The body is not valid JSON.'];
const NO_UTF8: Rule = ['MALFORMED_JSON', 'The body is not valid UTF-8.'];
const NO_DATA: Rule = ['MALFORMED_JSON', /^The body is not valid (gzip|deflate|br)\.$/];
const TOO_DEEP: Rule = ['VALIDATION_FAILED', 'JSON nesting depth exceeds 32.'];
const TOO_LARGE: Rule = ['PAYLOAD_TOO_LARGE', `The body is larger than ${BODY_LIMIT} bytes.`];
const unsupported = (message: string): Rule => ['UNSUPPORTED_MEDIA_TYPE', message];
const NO_TYPE = unsupported('The Content-Type of the body must be application/json.');
const NO_CHARSET = unsupported('The charset of the body must be UTF-8.');
const NO_ENCODING = unsupported(
  'The Content-Encoding of the body must be gzip, deflate, br or none.',
);

/** The names of invalid bodies, their errors, the bodies, and their headers. */
const INVALID_BODIES: [string, ...Rule, Body, Record<string, string>][] = [
  ['an array', ...NO_OBJECT, '[]', {}],
  ['null', ...NO_OBJECT, 'null', {}],
  ['truncated JSON', ...NO_JSON, '{"name":"dog"', {}],
  ['deep nesting that is never closed', ...NO_JSON, '['.repeat(50_000), {}],
  ['a Latin-1 character', ...NO_UTF8, bytes('{"name":"Z\xf6e"}'), {}],
  ['UTF-16', ...NO_UTF8, Buffer.from('\ufeff{"name":"dog"}', 'utf16le'), {}],
  ['nothing', ...NO_BODY, gzipSync(''), encoded('gzip')],
  ['32 arrays', 'VALIDATION_FAILED', /name/, nested('name', '[', ']', 32), {}],
  ['33 arrays', ...TOO_DEEP, nested('name', '[', ']', 33), {}],
  ['33 objects in an unknown property', ...TOO_DEEP, nested('unknown', '{"a":', '}', 33), {}],
  ['another type', ...NO_TYPE, CATEGORY, typed('text/plain')],
  ['a form with files', ...NO_TYPE, '--x--', typed('multipart/form-data; boundary=x')],
  ['two types', ...NO_TYPE, CATEGORY, typed('application/json, text/plain')],
  ['another charset', ...NO_CHARSET, CATEGORY, typed('application/json; charset=utf-16')],
  ['another encoding', ...NO_ENCODING, CATEGORY, encoded('zstd')],
  ['two encodings', ...NO_ENCODING, CATEGORY, encoded('gzip, br')],
  ['plain JSON as Brotli', ...NO_DATA, CATEGORY, encoded('br')],
  ['truncated gzip', ...NO_DATA, gzipSync(CATEGORY).subarray(0, 20), encoded('gzip')],
  ['data after gzip', ...NO_DATA, Buffer.concat([gzipSync(CATEGORY), bytes('x')]), encoded('gzip')],
  ['one byte too many', ...TOO_LARGE, padded(BODY_LIMIT + 1), {}],
  ['many bytes in Brotli', ...TOO_LARGE, brotliCompressSync(padded(2e6)), encoded('br')],
];

describe('POST /v1/categories', () => {
  it.each(INVALID_BODIES)(
    'rejects a body with %s with %s, and stores nothing',
    async (_name, code, message, body, headers) => {
      const before = (await get('/v1/categories')).text;
      expect(await post(body, headers)).toBeError(code, message);
      expect((await get('/v1/categories')).text).toBe(before);
    },
  );

  it.each<[string, ...Rule, string[], string]>([
    ['no body', ...NO_BODY, [], ''],
    ['an empty chunked body', ...NO_BODY, [TYPE, CHUNKED], '0\r\n\r\n'],
    ['no type', ...NO_TYPE, ['Content-Length: 14'], CATEGORY],
    [
      'a Content-Length above the limit, without a 100 response',
      ...TOO_LARGE,
      [TYPE, `Content-Length: ${BODY_LIMIT + 1}`, 'Expect: 100-continue'],
      '',
    ],
  ])('rejects a request with %s with %s', async (_name, code, message, headers, body) => {
    const responses = await sendPost(headers, body);
    expect(responses).toHaveLength(1);
    expect(responses[0]).toBeError(code, message);
  });

  it('rejects an endless chunked body with a single response', async () => {
    const headers = [`Authorization: Bearer ${app.key}`, TYPE, CHUNKED];
    const body = `${(BODY_LIMIT * 10).toString(16)}\r\n${padded(BODY_LIMIT + 1)}`;
    const request = rawRequest({ method: 'POST', headers, body });
    const connection = (await RawConnection.open(app.url)).send(request);
    expect(await connection.nextResponse()).toBeError('PAYLOAD_TOO_LARGE');
    // The end of the request body must not cause a second response.
    expect(await connection.endWrites().closed()).toHaveLength(1);
  });

  it.each<[string, Body, Record<string, string>]>([
    ['a byte order mark', Buffer.from(`\ufeff${CATEGORY}`), {}],
    ['surrounding white space', ` \r\n\t${CATEGORY} \n`, {}],
    ['a charset in quotes', CATEGORY, typed('APPLICATION/JSON;charset="UTF-8"')],
    ['identity', CATEGORY, encoded('identity')],
    ['gzip', gzipSync(CATEGORY), encoded('gzip')],
    ['x-gzip', gzipSync(CATEGORY), encoded('x-gzip')],
    ['deflate', deflateSync(CATEGORY), encoded('deflate')],
    ['br', brotliCompressSync(CATEGORY), encoded('br')],
    ['as many bytes as allowed', padded(BODY_LIMIT), {}],
  ])('accepts a body with %s', async (_name, body, headers) => {
    const response = await post(body, headers);
    expect(response.status).toBe(201);
    expect(response.json()).toEqual({ id: expect.any(Number) as number, name: 'dog' });
  });
});

describe('the router', () => {
  const UNKNOWN =
    '/v1 /v1/categories/1/toys/1 /docs/../package.json /docs/README.md /v1/categories/ /v1/Categories';

  it.each(UNKNOWN.split(' '))('returns NOT_FOUND for the unknown path %s', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const headers = ['Connection: close'];
      const [response] = await sendRaw(app.url, rawRequest({ method, target: path, headers }));
      expect(response).toBeError('NOT_FOUND', `Route not found: ${method} ${path}.`);
    }
    expect.assertions(3);
  });

  const UNDECODABLE = '/v1/stubs/deprecated/%zz /v1/stubs/deprecated/%ff /docs/% /%';

  it.each(UNDECODABLE.split(' '))('rejects the path %s, which cannot be decoded', async (path) => {
    expect(await get(path)).toBeError('BAD_REQUEST', /decode/);
  });

  it('returns 501 for an operation that is not implemented, and logs no error', async () => {
    const response = await get('/v1/stubs/experimental');
    expect(response).toBeError('NOT_IMPLEMENTED');
    expect(logger.forRequest(response.headers['x-request-id'])).toEqual([]);
  });
});

describe('X-Request-Id', () => {
  it.each(['a', 'id_1.2:3;4,5/6+7=8@9~a-b', 'x'.repeat(128)])(
    'echoes the valid id %s',
    async (id) => {
      for (const path of ['/livez', '/v1/categories', '/v1/nope', '/docs', '/%']) {
        const { headers } = await sendRequest(app.url + path, { headers: { 'x-request-id': id } });
        expect(headers['x-request-id']).toBe(id);
      }
      expect.assertions(5);
    },
  );

  it.each([
    ['an empty id', ['']],
    ['an id that is too long', ['x'.repeat(129)]],
    ['an id with a space', ['a b']],
    ['a non-ASCII id', ['\u00e9']],
    ['a duplicate id', ['a', 'b']],
  ])('replaces %s', async (_name, ids) => {
    const headers = [...ids.map((id) => `X-Request-Id: ${id}`), 'Connection: close'];
    const [response] = await sendRaw(app.url, rawRequest({ target: '/livez', headers }));
    expect(response?.status).toBe(200);
    expect(response?.headers['x-request-id']).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-\w{12}$/);
  });
});

describe('a failing handler', () => {
  it.each(Object.keys(CRASHES))('returns 500 without internal details for %s', async (crash) => {
    const response = await get(`/v1/crash/${encodeURIComponent(crash)}`);
    expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    expect(JSON.stringify(response.headers)).not.toContain(SECRET);
    expect(response.headers).not.toHaveProperty('content-disposition');
    const [entry, ...others] = logger.forRequest(response.headers['x-request-id']);
    expect(entry).toMatchObject({ level: 'error' });
    expect(others).toEqual([]);
  });

  it('discards the headers that the handler had set', async () => {
    const response = await get('/v1/crash/after-headers');
    expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    expect(response.headers).not.toHaveProperty('etag');
    expect(response.headers).not.toHaveProperty('content-encoding');
    expect(Number(response.headers['content-length'])).toBe(response.text.length);
  });

  it('closes the connection if part of the response was already sent', async () => {
    const request = rawRequest({
      target: '/v1/crash/during-response',
      headers: [`Authorization: Bearer ${app.key}`, 'X-Request-Id: partial-response'],
    });
    const connection = await RawConnection.open(app.url);
    const startedAt = performance.now();
    expect(await connection.send(request).closed()).toEqual([]);
    // Before any timeout.
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    // No second response follows the partial one.
    expect(connection.received).not.toContain('INTERNAL_ERROR');
    expect(connection.received.match(/HTTP\/1\.1/g)?.length ?? 0).toBeLessThanOrEqual(1);
    expect(logger.forRequest('partial-response')).toMatchObject([{ level: 'error' }]);
  });

  it('keeps a response that was already sent', async () => {
    const response = await get('/v1/crash/after-response');
    expect(response.status).toBe(200);
    expect(response.json()).toEqual({ done: true });
    expect(logger.forRequest(response.headers['x-request-id'])).toMatchObject([{ level: 'error' }]);
  });
});

describe('an exception with a status', () => {
  it('keeps the headers of an ApiError', async () => {
    const response = await get('/v1/crash/503');
    expect(response).toBeError('SERVICE_UNAVAILABLE', 'Back soon.');
    expect(response.headers['retry-after']).toBe('7');
  });

  it.each([
    [404, 'NOT_FOUND', 'Toy 7 not found.'],
    [409, 'CONFLICT', 'The loan is closed.'],
    [410, 'RESOURCE_GONE', 'The book was sold.'],
    [418, 'I_M_A_TEAPOT', 'I am a teapot.'],
    [422, 'UNPROCESSABLE_CONTENT', 'The date is in the past.'],
    [502, 'BAD_GATEWAY', 'The bank is down.'],
  ])('returns an Error body with the code of its status: %d %s', async (status, code, message) => {
    const response = await get(`/v1/crash/${status}`);
    expect(response.status).toBe(status);
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(response.json()).toEqual({ code, message, status });
  });
});

describe('an error response', () => {
  const long = 'x'.repeat(15_000);
  it.each<[string, ErrorCode, string]>([
    ['a message of a handler', 'PAYLOAD_TOO_LARGE', '/v1/crash/413'],
    ['an unknown path', 'NOT_FOUND', `/${long}`],
  ])('truncates what it quotes to at most 4 KB: %s', async (_name, code, path) => {
    const response = await get(path);
    expect(response).toBeError(code, /^.{100,}…$/su);
    expect(response.body.length).toBeLessThanOrEqual(4096);
    expect(response.json<{ message: string }>().message.isWellFormed()).toBe(true);
  });
});
