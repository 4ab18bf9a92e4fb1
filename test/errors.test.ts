import { randomBytes } from 'node:crypto';
import { stripVTControlCharacters } from 'node:util';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import {
  BadGatewayException,
  NotAcceptableException,
  Controller,
  Get,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  Param,
  Res,
} from '@nestjs/common';
import type { Response as ExpressResponse } from 'express';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { loadConfig } from '../src/platform/config/config.js';
import { ApiError } from '../src/platform/errors/api-error.js';
import { ERROR_CODES } from '../src/platform/errors/error-codes.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { createLogger } from '../src/platform/logging/logger.js';
import { startApp, type TestApp } from './support/app.js';
import { type HttpResponse, jsonHeaders, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { MemoryLogger } from './support/memory-logger.js';
import { RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';
import { expectOnlyMethods } from './support/routes.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;
expect.extend(matchers);

/** A message that handlers throw and that responses must not contain. */
const SECRET = 'internal details';
const INTERNAL_ERROR_MESSAGE = 'Internal server error. Include the X-Request-Id when reporting it.';

const circular: Record<string, unknown> = {};
circular['self'] = circular;

/** Unexpected failures of a handler. Each causes a 500. */
const CRASHES: Record<string, () => unknown> = {
  'an Error': () => {
    throw new Error(SECRET);
  },
  'a rejection': () => Promise.reject(new TypeError(SECRET)),
  'a string': () => {
    throw SECRET;
  },
  undefined: () => {
    throw undefined;
  },
  null: () => Promise.reject(null),
  'an object': () => {
    throw { code: 'EVIL', message: SECRET, status: 'none' };
  },
  'an error with a success status': () => {
    throw Object.assign(new Error(SECRET), { status: 200 });
  },
  'an error with an invalid status': () => {
    throw Object.assign(new Error(SECRET), { status: 4_000 });
  },
  "Nest's InternalServerErrorException": () => {
    throw new InternalServerErrorException(SECRET, { cause: new Error(SECRET) });
  },
  'a circular response body': () => circular,
  'a response body with a bigint': () => ({ id: 1n }),
};

@Controller('crash')
class CrashController {
  @Get('500/:crash')
  crash(@Param('crash') crash: string): unknown {
    return CRASHES[crash]!();
  }

  @Get('502')
  badGateway(): never {
    throw new BadGatewayException(SECRET);
  }

  @Get('404')
  notFound(): never {
    throw new NotFoundException('Toy 7 not found.');
  }

  @Get('406')
  notAcceptable(): never {
    throw new NotAcceptableException({ detail: SECRET, inner: { secret: SECRET } });
  }

  @Get('418')
  teapot(): never {
    throw new HttpException('I am a teapot.', 418);
  }

  @Get('503')
  unavailable(): never {
    throw new ApiError('SERVICE_UNAVAILABLE', 'Back soon.', { headers: { 'Retry-After': '7' } });
  }

  @Get('after-headers')
  afterHeaders(@Res() response: ExpressResponse): never {
    response.status(201).set({
      ETag: '"x"',
      'Content-Encoding': 'gzip',
      'Content-Type': 'text/html',
      'Content-Length': '3',
      'Cache-Control': 'public, max-age=600',
    });
    throw new Error(SECRET);
  }

  @Get('during-response')
  duringResponse(@Res() response: ExpressResponse): never {
    response.status(200).set('Content-Length', '100').write('part of ');
    throw new Error(SECRET);
  }

  @Get('after-response')
  afterResponse(@Res() response: ExpressResponse): never {
    response.status(200).json({ done: true });
    throw new Error(SECRET);
  }
}

@Feature({
  tag: { name: 'crash', description: 'Operations of this test.' },
  controllers: [CrashController],
})
class CrashModule {}

const FEATURES = [CategoriesModule, CrashModule, StubsModule];

const logger = new MemoryLogger();
let app: TestApp;
beforeAll(async () => {
  app = await startApp({ features: FEATURES, logger });
});
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

const get = (path: string, key = app.key): Promise<HttpResponse> => app.send('GET', path, key);

/** Sends a create request with exactly these bytes as its body. */
function post(body: string | Buffer, headers: Record<string, string> = {}): Promise<HttpResponse> {
  return sendRequest(`${app.url}/v1/categories`, {
    method: 'POST',
    headers: { ...jsonHeaders(app.key), ...headers },
    body,
  });
}

/** Encodes each character as one byte, so that `\xff` is invalid UTF-8. */
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('POST /v1/categories with an invalid body', () => {
  // Properties that every object inherits are easily mistaken for known ones.
  it.each([
    'Name',
    'name ',
    '',
    '0',
    'length',
    'then',
    'toJSON',
    'prototype',
    '__proto__',
    ...Object.getOwnPropertyNames(Object.prototype).filter((name) => name !== '__proto__'),
  ])('rejects the unknown property "%s" regardless of its value', async (name) => {
    for (const value of ['1', 'null', '{}', '{"name":"cat"}', '[]', '"x"']) {
      expect(await post(`{"name":"dog",${JSON.stringify(name)}:${value}}`)).toBeError(
        'VALIDATION_FAILED',
        `unknown property ${name}.`,
      );
    }
    expect.assertions(6);
  });

  it.each(['[]', 'null', '1', '"x"', 'true', '[{"name":"dog"}]', ' [] '])(
    'rejects %s, which is not an object',
    async (body) => {
      expect(await post(body)).toBeError('VALIDATION_FAILED', 'the body must be a JSON object.');
    },
  );

  it.each([
    ['a missing body', []],
    ['a missing body with a Content-Type', ['Content-Type: text/plain']],
    ['an empty body', ['Content-Type: application/json', 'Content-Length: 0']],
  ])('rejects %s', async (_name, headers) => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [...headers, `Authorization: Bearer ${app.key}`, 'Connection: close'],
      }),
    );
    expect(response).toBeError('VALIDATION_FAILED', 'request body is required.');
  });

  it.each([
    ['truncated JSON', '{"name":"dog"'],
    ['a trailing comma', '{"name":"dog",}'],
    ['single quotes', "{'name':'dog'}"],
    ['text after the JSON', '{"name":"dog"} x'],
    ['two JSON values', '{"name":"dog"}{"name":"dog"}'],
    ['a bare word', 'dog'],
    ['NaN', '{"name":NaN}'],
    ['a line feed in a string', '{"name":"d\ng"}'],
    ['white space', '   '],
    ['a form', 'name=dog'],
    ['binary data', bytes('\x00\x01\x02')],
    ['deep nesting that is never closed', '['.repeat(100_000)],
  ])('rejects %s as malformed JSON', async (_name, body) => {
    expect(await post(body)).toBeError('MALFORMED_JSON', 'The body is not valid JSON.');
  });

  it.each([
    ['a Latin-1 character', bytes('{"name":"Z\xf6e"}')],
    ['a byte that never occurs in UTF-8', bytes('{"name":"\xff"}')],
    ['a truncated character', bytes('{"name":"\xc3"}')],
    ['an overlong encoding', bytes('{"name":"\xc0\xaf"}')],
    ['an encoded surrogate', bytes('{"name":"\xed\xa0\xbd"}')],
    ['a code point above U+10FFFF', bytes('{"name":"\xf4\x90\x80\x80"}')],
    ['UTF-16', Buffer.from('\ufeff{"name":"dog"}', 'utf16le')],
    ['an invalid byte in a property name', bytes('{"n\xe4me":"dog"}')],
    ['an invalid byte in an unknown property', bytes('{"name":"dog","x":"\xff"}')],
  ])('rejects %s as invalid UTF-8', async (_name, body) => {
    expect(await post(body)).toBeError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  });

  describe.each([
    ['arrays', 'name', '[', ']'],
    ['objects', 'name', '{"a":', '}'],
    ['arrays', 'unknown', '[', ']'],
    ['objects', 'unknown', '{"a":', '}'],
  ])('with nested %s in the property "%s"', (_name, property, open, close) => {
    const nested = (depth: number): string =>
      `{"${property}":${open.repeat(depth - 1)}1${close.repeat(depth - 1)}}`;

    it('validates up to 32 levels', async () => {
      const response = await post(nested(32));
      expect(response).toBeError('VALIDATION_FAILED', new RegExp(property));
    });

    it.each([33, 1_000, 15_000])('rejects %d levels', async (depth) => {
      expect(await post(nested(depth))).toBeError(
        'VALIDATION_FAILED',
        'JSON nesting depth exceeds 32.',
      );
    });
  });
});

describe('POST /v1/categories with a valid body', () => {
  it.each([
    ['a byte order mark', Buffer.from('\ufeff{"name":"dog"}')],
    ['surrounding white space', ' \r\n\t{"name":"dog"} \n'],
    ['escape sequences', '{"n\\u0061me":"\\u0064og"}'],
  ])('accepts %s', async (_name, body) => {
    const response = await post(body);
    expect(response.status).toBe(201);
    expect(response.json()).toEqual({ id: expect.any(Number) as number, name: 'dog' });
  });

  it.each(['application/json', 'APPLICATION/JSON', 'application/json;charset="UTF-8"'])(
    'accepts the Content-Type %s',
    async (type) => {
      expect((await post('{"name":"dog"}', { 'content-type': type })).status).toBe(201);
    },
  );

  it.each([
    ['identity', (body: string) => body],
    ['gzip', gzipSync],
    ['GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('accepts the Content-Encoding %s', async (encoding, encode) => {
    const body = encode('{"name":"dog"}');
    expect((await post(body, { 'content-encoding': encoding })).status).toBe(201);
  });
});

describe('POST /v1/categories with an unsupported body', () => {
  it.each([
    'text/plain',
    'text/json',
    'application/vnd.api+json',
    'application/merge-patch+json',
    'application/jsonp',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json, text/plain',
    'application/*',
    'json',
    ';',
  ])('rejects the Content-Type %s with 415', async (type) => {
    expect(await post('{"name":"dog"}', { 'content-type': type })).toBeError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The Content-Type of the body must be application/json.',
    );
  });

  it('rejects a missing Content-Type with 415', async () => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [`Authorization: Bearer ${app.key}`, 'Content-Length: 14', 'Connection: close'],
        body: '{"name":"dog"}',
      }),
    );
    expect(response).toBeError('UNSUPPORTED_MEDIA_TYPE');
  });

  it.each(['utf-16', 'utf-16le', 'utf-32', 'utf-7', 'iso-8859-1', 'us-ascii', 'none'])(
    'rejects the charset %s with 415',
    async (charset) => {
      const headers = { 'content-type': `application/json; charset=${charset}` };
      const body = charset.startsWith('utf-16')
        ? Buffer.from('{"name":"dog"}', 'utf16le')
        : '{"name":"dog"}';
      expect(await post(body, headers)).toBeError(
        'UNSUPPORTED_MEDIA_TYPE',
        'The charset of the body must be UTF-8.',
      );
    },
  );

  it.each(['compress', 'zstd', 'x-gzip', 'gzip, gzip', 'gzip, br', 'none'])(
    'rejects the Content-Encoding %s with 415',
    async (encoding) => {
      expect(await post('{"name":"dog"}', { 'content-encoding': encoding })).toBeError(
        'UNSUPPORTED_MEDIA_TYPE',
        'The Content-Encoding of the body must be gzip, deflate, br or none.',
      );
    },
  );

  it.each([
    ['plain JSON', 'gzip', '{"name":"dog"}'],
    ['plain JSON', 'deflate', '{"name":"dog"}'],
    ['plain JSON', 'br', '{"name":"dog"}'],
    ['a truncated body', 'gzip', gzipSync('{"name":"dog"}').subarray(0, 20)],
    ['trailing data', 'gzip', Buffer.concat([gzipSync('{"name":"dog"}'), bytes('x')])],
  ])('rejects %s with the Content-Encoding %s', async (_name, encoding, body) => {
    const response = await post(body, { 'content-encoding': encoding });
    expect(response).toBeError('MALFORMED_JSON', new RegExp(encoding));
  });
});

describe('POST /v1/categories with a large body', () => {
  const BODY_LIMIT = 102_400;
  const category = '{"name":"dog"}';
  const padded = (length: number): string => category.padEnd(length);

  it('accepts a body of exactly the limit', async () => {
    expect((await post(padded(BODY_LIMIT))).status).toBe(201);
    const gzipped = gzipSync(padded(BODY_LIMIT));
    expect((await post(gzipped, { 'content-encoding': 'gzip' })).status).toBe(201);
  });

  it.each([
    ['by one byte', padded(BODY_LIMIT + 1), {}],
    ['by a factor of 20', padded(BODY_LIMIT * 20), {}],
    [
      'by one byte after gzip decompression',
      gzipSync(padded(BODY_LIMIT + 1)),
      { 'content-encoding': 'gzip' },
    ],
    [
      'by far after gzip decompression',
      gzipSync(padded(BODY_LIMIT * 20)),
      { 'content-encoding': 'gzip' },
    ],
    [
      'by far after Brotli decompression',
      brotliCompressSync(padded(BODY_LIMIT * 20)),
      { 'content-encoding': 'br' },
    ],
  ])(
    'rejects a body that exceeds the limit %s',
    async (_name, body, headers: Record<string, string>) => {
      expect(await post(body, headers)).toBeError(
        'PAYLOAD_TOO_LARGE',
        `The body is larger than ${BODY_LIMIT} bytes.`,
      );
    },
  );

  it('rejects a chunked body that exceeds the limit', async () => {
    const chunk = `${BODY_LIMIT.toString(16)}\r\n${padded(BODY_LIMIT)}\r\n`;
    const [response] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
          `Authorization: Bearer ${app.key}`,
          'Connection: close',
        ],
        body: `${chunk}${chunk}0\r\n\r\n`,
      }),
    );
    expect(response).toBeError('PAYLOAD_TOO_LARGE');
  });

  it.each([
    ['uncompressed', []],
    ['gzip-compressed', ['Content-Encoding: gzip']],
  ])('rejects an endless %s chunked body', async (_name, encoding) => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
          `Authorization: Bearer ${app.key}`,
          ...encoding,
        ],
        body: Buffer.concat([
          bytes(`${(BODY_LIMIT * 10).toString(16)}\r\n`),
          // Random bytes do not shrink.
          encoding.length === 0
            ? bytes(padded(BODY_LIMIT + 1))
            : gzipSync(randomBytes(BODY_LIMIT + 1)),
        ]),
      }),
    );
    expect(await connection.nextResponse()).toBeError('PAYLOAD_TOO_LARGE');
    // The end of the request body must not cause a second response.
    connection.endWrites();
    expect(await connection.closed()).toHaveLength(1);
  });

  it('rejects a Content-Length above the limit without a 100 response', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [
          'Content-Type: application/json',
          `Content-Length: ${BODY_LIMIT + 1}`,
          `Authorization: Bearer ${app.key}`,
          'Expect: 100-continue',
        ],
      }),
    );
    const responses = await connection.closed();
    expect(responses).toHaveLength(1);
    expect(responses[0]).toBeError('PAYLOAD_TOO_LARGE');
  });

  it('applies the configured limit', async () => {
    const small = await startApp({ config: { bodyLimit: 10 }, logger });
    const response = await small.categories.create('dog');
    await small.stop();
    expect(response).toBeError('PAYLOAD_TOO_LARGE', 'The body is larger than 10 bytes.');
  });
});

describe('a rejected create request', () => {
  it('stores nothing', async () => {
    const before = (await get('/v1/categories')).text;
    const rejected = [
      await post('{"name":""}'),
      await post('{"name":"dog","id":1}'),
      await post('{"name":"dog"'),
      await post(bytes('{"name":"\xff"}')),
      await post('{"name":"dog"}', { 'content-type': 'text/plain' }),
      await post('{"name":"dog"}'.padEnd(200_000)),
    ];
    expect(rejected.map(({ status }) => status)).toEqual([400, 400, 400, 400, 415, 413]);
    expect((await get('/v1/categories')).text).toBe(before);
  });
});

describe('routing', () => {
  it.each([
    '/v1',
    '/v1/',
    '/v2/categories',
    '/categories',
    '/v1/categories/1/toys/1',
    '/v1/stubs',
    '/v1/stubs/deprecated',
    '/v1/stubs/deprecated/1/toys',
    '/favicon.ico',
    '/docs/nope',
    '/docs/../package.json',
    '/docs/%2e%2e/package.json',
    '/v1/categories/',
    '/v1/Categories',
    '/V1/categories',
    '/livez/',
    '/Docs',
    '/.env',
    '/constructor',
    '/__proto__',
  ])('returns NOT_FOUND for the unknown path %s', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const [response] = await sendRaw(
        app.url,
        rawRequest({ method, target: path, headers: ['Connection: close'] }),
      );
      expect(response).toBeError('NOT_FOUND', `Route not found: ${method} ${path}.`);
    }
    expect.assertions(3);
  });

  it('returns 404 without a body for a HEAD request', async () => {
    const response = await app.send('HEAD', '/v1/nope');
    expect(response.status).toBe(404);
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(response.text).toBe('');
  });

  it.each([
    '/v1/stubs/deprecated/%zz',
    '/v1/stubs/deprecated/%',
    '/v1/stubs/deprecated/%ff',
    '/v1/%c3%28',
    '/docs/%',
    '/%',
  ])('rejects the path %s, which cannot be decoded', async (path) => {
    expect(await get(path)).toBeError('BAD_REQUEST', /decode/);
  });

  it.each([
    ['/v1/categories', 'GET, HEAD, POST'],
    ['/v1/stubs/deprecated/1', 'GET, HEAD'],
    ['/v1/stubs/experimental', 'GET, HEAD'],
    ['/', 'GET, HEAD'],
    ['/livez', 'GET, HEAD'],
    ['/readyz', 'GET, HEAD'],
    ['/docs', 'GET, HEAD'],
    ['/docs/', 'GET, HEAD'],
    ['/docs/swagger-ui-init.js', 'GET, HEAD'],
    ['/openapi.json', 'GET, HEAD'],
    ['/openapi.yaml', 'GET, HEAD'],
  ])('limits %s to the methods %s', async (path, allow) => {
    expect.hasAssertions();
    await expectOnlyMethods(app, path, allow);
  });

  it('returns 501 for an operation that is not implemented, and logs no error', async () => {
    for (const path of ['/v1/stubs/deprecated/1', '/v1/stubs/experimental']) {
      const response = await get(path);
      expect(response).toBeError('NOT_IMPLEMENTED');
      expect(logger.forRequest(response.headers['x-request-id'])).toEqual([]);
    }
    expect.assertions(4);
  });
});

describe('X-Request-Id', () => {
  it.each([
    '8f14e45f-ceea-467f-a1f0-1b2c3d4e5f60',
    'a',
    'id_1.2:3;4,5/6+7=8@9~a-b',
    'x'.repeat(128),
  ])('echoes the valid id %s', async (id) => {
    for (const path of ['/livez', '/v1/categories', '/v1/nope', '/docs', '/%']) {
      const { headers } = await sendRequest(app.url + path, { headers: { 'x-request-id': id } });
      expect(headers['x-request-id']).toBe(id);
    }
    expect.assertions(5);
  });

  it.each([
    ['an empty id', ['']],
    ['an id that is too long', ['x'.repeat(129)]],
    ['an id with a space', ['a b']],
    ['an id with a tab', ['a\tb']],
    ['an id with a quote', ['a"b']],
    ['an id with markup', ['<script>alert(1)</script>']],
    ['an id with a percent sign', ['a%0d%0ab']],
    ['an id with a terminal escape', ['a\\x1b[31m']],
    ['a non-ASCII id', ['\u00e9']],
    ['a duplicate id', ['a', 'b']],
  ])('replaces %s', async (_name, ids) => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({
        target: '/livez',
        headers: [...ids.map((id) => `X-Request-Id: ${id}`), 'Connection: close'],
      }),
    );
    expect(response?.status).toBe(200);
    expect(response?.headers['x-request-id']).toMatch(
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
  });

  it.each([
    ['/livez', 200],
    ['/readyz', 200],
    ['/docs', 200],
    ['/docs/swagger-ui.css', 200],
    ['/docs/swagger-ui-init.js', 200],
    ['/openapi.json', 200],
    ['/openapi.yaml', 200],
    ['/v1/categories', 401],
    ['/v1/nope', 404],
    ['/%', 400],
  ])('is different in each response of %s', async (path, status) => {
    const first = await sendRequest(app.url + path);
    const second = await sendRequest(app.url + path);
    expect([first.status, second.status]).toEqual([status, status]);
    const ids = [first, second].map(({ headers }) => headers['x-request-id']);
    expect(ids).toEqual([expect.stringMatching(/^\S+$/), expect.stringMatching(/^\S+$/)]);
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe('a failing handler', () => {
  it.each(Object.keys(CRASHES))('returns 500 without internal details for %s', async (crash) => {
    const response = await get(`/v1/crash/500/${encodeURIComponent(crash)}`);
    expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    expect(JSON.stringify(response.headers)).not.toContain(SECRET);
    const [entry, ...others] = logger.forRequest(response.headers['x-request-id']);
    expect(entry).toMatchObject({ level: 'error' });
    expect(others).toEqual([]);
  });

  it('logs the cause with its stack and the request id', async () => {
    const response = await get('/v1/crash/500/an%20Error');
    const [entry] = logger.forRequest(response.headers['x-request-id']);
    expect(entry?.values).toContainEqual(
      expect.objectContaining({
        message: SECRET,
        stack: expect.stringContaining('errors.test') as string,
      }),
    );
  });

  it.each([true, false])(
    'writes the cause to the process log (production: %s)',
    async (production) => {
      const lines: string[] = [];
      for (const stream of [process.stdout, process.stderr]) {
        jest.spyOn(stream, 'write').mockImplementation((line) => {
          lines.push(String(line));
          return true;
        });
      }
      const config = { ...loadConfig({}), production };
      const instance = await startApp({
        features: FEATURES,
        logger: createLogger(config),
        config: { production },
      });
      const response = await sendRequest(`${instance.url}/v1/crash/500/an%20Error`, {
        headers: { authorization: `Bearer ${instance.key}` },
      });
      await instance.stop();
      jest.restoreAllMocks();
      instance.app.useLogger(logger);

      expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
      const id = String(response.headers['x-request-id']);
      const logged = stripVTControlCharacters(lines.filter((line) => line.includes(id)).join(''));
      expect(logged).toContain(SECRET);
      expect(logged).toContain('errors.test');
      expect(logged).toContain('Request failed');
      expect(logged).toMatch(/\bmethod\W+GET\b/);
      expect(logged).toContain('/v1/crash/500/:crash');
      expect(lines.join('')).not.toContain(instance.key);
      // JSON lines in production, readable text otherwise.
      const isJson = lines.every(
        (line) => line.startsWith('{') && line.indexOf('\n') === line.length - 1,
      );
      expect(isJson).toBe(production);
    },
  );

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
    expect(await connection.send(request).closed()).toEqual([]);
    // No second response follows the partial one.
    expect(connection.received).not.toContain('INTERNAL_ERROR');
    expect(connection.received.match(/HTTP\/1\.1/g)?.length ?? 0).toBeLessThanOrEqual(1);
    expect(logger.forRequest('partial-response')).toMatchObject([{ level: 'error' }]);
  });

  it('does not change a response that was already sent', async () => {
    const response = await get('/v1/crash/after-response');
    expect(response.status).toBe(200);
    expect(response.json()).toEqual({ done: true });
    expect(logger.forRequest(response.headers['x-request-id'])).toMatchObject([{ level: 'error' }]);
  });

  it('leaves the service healthy', async () => {
    expect((await get('/v1/categories')).status).toBe(200);
    expect((await get('/readyz')).status).toBe(200);
  });
});

describe('an exception with a status', () => {
  it('keeps the message of a 4xx', async () => {
    expect(await get('/v1/crash/404')).toBeError('NOT_FOUND', 'Toy 7 not found.');
  });

  it('sends the headers of an ApiError', async () => {
    const response = await get('/v1/crash/503');
    expect(response).toBeError('SERVICE_UNAVAILABLE', 'Back soon.');
    expect(response.headers['retry-after']).toBe('7');
  });

  it.each([
    [406, 'NOT_ACCEPTABLE'],
    [418, 'I_M_A_TEAPOT'],
    [502, 'BAD_GATEWAY'],
  ])(
    'derives the code of the status %d, which has no entry in ERROR_CODES: %s',
    async (status, code) => {
      expect(Object.keys(ERROR_CODES)).not.toContain(code);
      const response = await get(`/v1/crash/${status}`);
      expect(response.status).toBe(status);
      expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
      expect(response.json()).toEqual({
        code,
        message: expect.stringMatching(/\S/) as string,
        status,
      });
      expect(response.text).not.toContain(SECRET);
    },
  );
});

describe('GET /docs/swagger-ui.css', () => {
  it.each([
    [412, 'PRECONDITION_FAILED', 'If-Match', '"other"'],
    [416, 'RANGE_NOT_SATISFIABLE', 'Range', 'bytes=999999999-'],
  ])('returns %d with the Error body and the code %s', async (status, code, name, value) => {
    const headers = { [name]: value };
    const response = await sendRequest(`${app.url}/docs/swagger-ui.css`, { headers });
    expect(response.status).toBe(status);
    expect(response.json()).toEqual({ code, message: expect.any(String) as string, status });
  });
});

/** Performs an action while a table does not exist. */
async function withoutTable<T>(table: string, action: () => Promise<T>): Promise<T> {
  await app.dataSource.query(`ALTER TABLE "${table}" RENAME TO "${table}_broken"`);
  try {
    return await action();
  } finally {
    await app.dataSource.query(`ALTER TABLE "${table}_broken" RENAME TO "${table}"`);
  }
}

describe('a database error', () => {
  /** Terms of both databases and of the persistence layer. */
  const DATABASE_TERMS =
    /sql|table|relation|categories|api_keys|select|insert|typeorm|query|node_modules/i;

  beforeEach(async () => {
    // Caches the key, so that the api_keys table is not queried, and invalidates the cached list.
    await post('{"name":"dog"}');
  });

  it.each([
    ['a create request', () => post('{"name":"dog"}')],
    ['a list request', () => get('/v1/categories')],
  ])('returns 500 without internal details for %s, and logs the cause', async (_name, act) => {
    const response = await withoutTable('categories', act);
    expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    expect(response.text).not.toMatch(DATABASE_TERMS);
    const [entry, ...others] = logger.forRequest(response.headers['x-request-id']);
    expect(others).toEqual([]);
    expect(entry?.values).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('categories') as string }),
    );
    expect((await act()).status).toBeLessThan(300);
  });

  it('rejects a key that is not cached', async () => {
    const response = await withoutTable('api_keys', () => get('/v1/categories', 'pet_unknown'));
    expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    expect(response.text).not.toMatch(DATABASE_TERMS);
    expect(response.headers).not.toHaveProperty('www-authenticate');
    expect((await get('/v1/categories', 'pet_unknown')).status).toBe(401);
  });

  it('fails every create request of a batch, each with its own request id', async () => {
    const responses = await withoutTable('categories', () =>
      Promise.all(Array.from({ length: 5 }, () => post('{"name":"batch"}'))),
    );
    for (const response of responses)
      expect(response).toBeError('INTERNAL_ERROR', INTERNAL_ERROR_MESSAGE);
    const ids = responses.map(({ headers }) => headers['x-request-id']);
    expect(new Set(ids).size).toBe(5);
    expect((await get('/v1/categories')).text).not.toContain('batch');
  });
});

describe('an unavailable database', () => {
  it('makes GET /readyz return 503 with Retry-After, and GET /livez 200', async () => {
    const instance = await startApp({ logger });
    await instance.dataSource.destroy();
    const ready = await sendRequest(`${instance.url}/readyz`);
    const live = await sendRequest(`${instance.url}/livez`);
    await instance.stop();
    expect(ready).toBeError('SERVICE_UNAVAILABLE');
    expect(ready.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(live.status).toBe(200);
  });
});
