import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import {
  BadGatewayException,
  NotAcceptableException,
  Controller,
  Get,
  HttpException,
  InternalServerErrorException,
  Module,
  NotFoundException,
  Param,
  Res,
} from '@nestjs/common';
import type { Response as ExpressResponse } from 'express';
import type { Response } from 'supertest';
import { createLogger } from '../src/app.js';
import { loadConfig } from '../src/platform/config/config.js';
import { ApiError } from '../src/platform/errors/api-error.js';
import { ERROR_CODES } from '../src/platform/errors/error-codes.js';
import { startApp, type TestApp } from './support/app.js';
import { MemoryLogger } from './support/memory-logger.js';
import { matchers } from './support/matchers.js';
import { RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';
import { startAppWithModule } from './support/start-app-with-module.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;
expect.extend(matchers);

/** What a handler throws, and what must not leave the service. */
const SECRET = 'the inside of the service';
const HIDDEN =
  'The service failed to answer; its log has the cause under the X-Request-Id of this answer.';

const circular: Record<string, unknown> = {};
circular['self'] = circular;

/** Ways to fail that nobody foresaw; each is the cause of a 500. */
const CRASHES: Record<string, () => unknown> = {
  'an Error': () => {
    throw new Error(SECRET);
  },
  'a rejection': () => Promise.reject(new TypeError(SECRET)),
  text: () => {
    throw SECRET;
  },
  undefined: () => {
    throw undefined;
  },
  null: () => Promise.reject(null),
  'an object': () => {
    throw { code: 'EVIL', message: SECRET, status: 'none' };
  },
  'an error with a status of success': () => {
    throw Object.assign(new Error(SECRET), { status: 200 });
  },
  'an error with a status that is none': () => {
    throw Object.assign(new Error(SECRET), { status: 4_000 });
  },
  "Nest's InternalServerErrorException": () => {
    throw new InternalServerErrorException(SECRET, { cause: new Error(SECRET) });
  },
  'an answer that refers to itself': () => circular,
  'an answer with a bigint': () => ({ id: 1n }),
};

@Controller('crash')
class CrashController {
  /** Fails as the row of `CRASHES` says. */
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
    throw new NotFoundException('There is no pet 7.');
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
    throw new ApiError('SERVICE_UNAVAILABLE', 'Back soon.', { 'Retry-After': '7' });
  }

  @Get('described')
  described(@Res() response: ExpressResponse): never {
    response.status(201).set({
      ETag: '"x"',
      'Content-Encoding': 'gzip',
      'Content-Type': 'text/html',
      'Content-Length': '3',
      'Cache-Control': 'public, max-age=600',
    });
    throw new Error(SECRET);
  }

  @Get('half')
  half(@Res() response: ExpressResponse): never {
    response.status(200).set('Content-Length', '100').write('half of ');
    throw new Error(SECRET);
  }

  @Get('done')
  done(@Res() response: ExpressResponse): never {
    response.status(200).json({ done: true });
    throw new Error(SECRET);
  }
}

@Module({ imports: [StubsModule], controllers: [CrashController] })
class CrashModule {}

const logger = new MemoryLogger();
let app: TestApp;
beforeAll(async () => {
  app = await startAppWithModule(CrashModule, { logger });
});
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

function get(path: string, key = app.key): Promise<Response> {
  return Promise.resolve(app.http().get(path).auth(key, { type: 'bearer' }));
}

/** Posts exactly these bytes as a category. */
async function post(
  body: string | Buffer,
  headers: Record<string, string> = {},
): Promise<Response> {
  const request = app
    .http()
    .post('/v1/categories')
    .auth(app.key, { type: 'bearer' })
    .set({ 'Content-Type': 'application/json', ...headers })
    // Whatever the type, the bytes go out as they are.
    .serialize((value: unknown) => value as string);
  return request.send(body as string);
}

/** Every byte is what the text says, so that `\xff` is no UTF-8. */
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('a body that is not valid', () => {
  it.each([
    ['without a name', '{}', 'name is missing.'],
    ['with a name that is null', '{"name":null}', 'name must be a string.'],
    ['with a name that is a number', '{"name":7}', 'name must be a string.'],
    ['with a name that is an object', '{"name":{"name":"dog"}}', 'name must be a string.'],
    ['with a name that is an array', '{"name":["dog"]}', 'name must be a string.'],
    ['with an empty name', '{"name":""}', 'name must be 1 to 100 characters long.'],
    ['with a blank name', '{"name":" \\t"}', 'name must not be blank.'],
    ['with a NUL', '{"name":"d\\u0000g"}', 'name must not contain a NUL character.'],
    ['with half a character', '{"name":"\\ud83d"}', 'name must not contain a lone surrogate.'],
    [
      'with a name that is too long',
      `{"name":"${'n'.repeat(101)}"}`,
      'name must be 1 to 100 characters long.',
    ],
    [
      'with a description that is null',
      '{"name":"dog","description":null}',
      'description must be a string.',
    ],
    [
      'with a description that is too long',
      `{"name":"dog","description":"${'d'.repeat(1001)}"}`,
      'description must be at most 1000 characters long.',
    ],
    ['with an id', '{"id":1,"name":"dog"}', 'property id should not exist.'],
    ['with two names, the last of which counts', '{"name":"a","name":1}', 'name must be a string.'],
  ])('is refused %s', async (_name, body, message) => {
    expect(await post(body)).toBeError('VALIDATION_FAILED', message);
  });

  it('is refused with everything that is wrong at once, by name', async () => {
    const response = await post('{"id":1,"nome":"dog","description":2}');
    expect(response).toBeError('VALIDATION_FAILED');
    const { message } = response.body as { message: string };
    expect(message.replace(/\.$/, '').split('; ').toSorted()).toEqual([
      'description must be a string',
      'name is missing',
      'property id should not exist',
      'property nome should not exist',
    ]);
  });

  // Those that every object inherits are easily taken for known ones.
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
  ])('is refused with the unknown property "%s", whatever its value', async (name) => {
    for (const value of ['1', 'null', '{}', '{"name":"cat"}', '[]', '"x"']) {
      expect(await post(`{"name":"dog",${JSON.stringify(name)}:${value}}`)).toBeError(
        'VALIDATION_FAILED',
        `property ${name} should not exist.`,
      );
    }
    expect.assertions(6);
  });

  it.each(['[]', 'null', '1', '"x"', 'true', '[{"name":"dog"}]', ' [] '])(
    'is refused where it is %s',
    async (body) => {
      expect(await post(body)).toBeError('VALIDATION_FAILED', 'the body must be a JSON object.');
    },
  );

  it.each([
    ['missing', []],
    ['missing, whatever its type would be', ['Content-Type: text/plain']],
    ['empty', ['Content-Type: application/json', 'Content-Length: 0']],
  ])('is refused where it is %s', async (_name, headers) => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [...headers, `Authorization: Bearer ${app.key}`, 'Connection: close'],
      }),
    );
    expect(answer).toBeError('VALIDATION_FAILED', 'the body is missing: send a JSON object.');
  });

  it.each([
    ['cut off', '{"name":"dog"'],
    ['with a comma too many', '{"name":"dog",}'],
    ['with single quotes', "{'name':'dog'}"],
    ['followed by something', '{"name":"dog"} x'],
    ['two values', '{"name":"dog"}{"name":"dog"}'],
    ['a bare word', 'dog'],
    ['NaN', '{"name":NaN}'],
    ['with a line feed in a string', '{"name":"d\ng"}'],
    ['blank', '   '],
    ['a form', 'name=dog'],
    ['binary', bytes('\x00\x01\x02')],
    ['deep, and never closed', '['.repeat(100_000)],
  ])('is refused as malformed where it is %s', async (_name, body) => {
    expect(await post(body)).toBeError('MALFORMED_JSON', 'The body is not valid JSON.');
  });

  it.each([
    ['a byte of Latin-1', bytes('{"name":"Z\xf6e"}')],
    ['a byte that never occurs', bytes('{"name":"\xff"}')],
    ['half a character', bytes('{"name":"\xc3"}')],
    ['an overlong character', bytes('{"name":"\xc0\xaf"}')],
    ['a surrogate', bytes('{"name":"\xed\xa0\xbd"}')],
    ['more than Unicode has', bytes('{"name":"\xf4\x90\x80\x80"}')],
    ['bytes of UTF-16', Buffer.from('\ufeff{"name":"dog"}', 'utf16le')],
    ['a bad byte in a property name', bytes('{"n\xe4me":"dog"}')],
    ['a bad byte in a value that is ignored', bytes('{"name":"dog","x":"\xff"}')],
  ])('is refused where it is not UTF-8: %s', async (_name, body) => {
    expect(await post(body)).toBeError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  });

  describe.each([
    ['arrays', 'name', '[', ']'],
    ['objects', 'name', '{"a":', '}'],
    ['arrays', 'unknown', '[', ']'],
    ['objects', 'unknown', '{"a":', '}'],
  ])('that nests %s in %s', (_name, property, open, close) => {
    const nested = (depth: number): string =>
      `{"${property}":${open.repeat(depth - 1)}1${close.repeat(depth - 1)}}`;

    it('is refused for what it holds up to 32 levels', async () => {
      const response = await post(nested(32));
      expect(response).toBeError('VALIDATION_FAILED', new RegExp(property));
    });

    it.each([33, 1_000, 15_000])('is refused for its depth at %d levels', async (depth) => {
      expect(await post(nested(depth))).toBeError(
        'VALIDATION_FAILED',
        'The body nests more than 32 levels deep.',
      );
    });
  });
});

describe('a body that is taken', () => {
  it.each([
    ['a byte order mark', Buffer.from('\ufeff{"name":"dog"}')],
    ['white space around it', ' \r\n\t{"name":"dog"} \n'],
    ['escapes', '{"n\\u0061me":"\\u0064og"}'],
  ])('may have %s', async (_name, body) => {
    const response = await post(body);
    expect(response.status).toBe(201);
    expect(response.body).toEqual({ id: expect.any(Number) as number, name: 'dog' });
  });

  it.each(['application/json', 'APPLICATION/JSON', 'application/json;charset="UTF-8"'])(
    'may be of the type %s',
    async (type) => {
      expect((await post('{"name":"dog"}', { 'Content-Type': type })).status).toBe(201);
    },
  );

  it.each([
    ['identity', (body: string) => body],
    ['gzip', gzipSync],
    ['GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('may have the encoding %s', async (encoding, encode) => {
    const body = encode('{"name":"dog"}');
    expect((await post(body, { 'Content-Encoding': encoding })).status).toBe(201);
  });
});

describe('a body of another kind', () => {
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
  ])('is refused where its type is %s', async (type) => {
    expect(await post('{"name":"dog"}', { 'Content-Type': type })).toBeError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The Content-Type of the body must be application/json.',
    );
  });

  it('is refused where it has no type', async () => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [`Authorization: Bearer ${app.key}`, 'Content-Length: 14', 'Connection: close'],
        body: '{"name":"dog"}',
      }),
    );
    expect(answer).toBeError('UNSUPPORTED_MEDIA_TYPE');
  });

  it.each(['utf-16', 'utf-16le', 'utf-32', 'utf-7', 'iso-8859-1', 'us-ascii', 'none'])(
    'is refused where its charset is %s',
    async (charset) => {
      const headers = { 'Content-Type': `application/json; charset=${charset}` };
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
    'is refused where its encoding is %s',
    async (encoding) => {
      expect(await post('{"name":"dog"}', { 'Content-Encoding': encoding })).toBeError(
        'UNSUPPORTED_MEDIA_TYPE',
        'The Content-Encoding of the body must be gzip, deflate, br or none.',
      );
    },
  );

  it.each([
    ['gzip', '{"name":"dog"}'],
    ['deflate', '{"name":"dog"}'],
    ['br', '{"name":"dog"}'],
    ['gzip', gzipSync('{"name":"dog"}').subarray(0, 20)],
    ['gzip', Buffer.concat([gzipSync('{"name":"dog"}'), bytes('x')])],
  ])('is refused where it is no %s, though it says so', async (encoding, body) => {
    const response = await post(body, { 'Content-Encoding': encoding });
    expect(response).toBeError('MALFORMED_JSON', new RegExp(encoding));
  });
});

describe('a body that is too large', () => {
  const LIMIT = 102_400;
  const category = '{"name":"dog"}';
  const padded = (length: number): string => category.padEnd(length);

  it('is taken up to the limit', async () => {
    expect((await post(padded(LIMIT))).status).toBe(201);
    const gzipped = gzipSync(padded(LIMIT));
    expect((await post(gzipped, { 'Content-Encoding': 'gzip' })).status).toBe(201);
  });

  it.each([
    ['by one byte', padded(LIMIT + 1), {}],
    ['by much', padded(LIMIT * 20), {}],
    ['by one byte when inflated', gzipSync(padded(LIMIT + 1)), { 'Content-Encoding': 'gzip' }],
    ['by much when inflated', gzipSync(padded(20_000_000)), { 'Content-Encoding': 'gzip' }],
    ['when decoded', brotliCompressSync(padded(20_000_000)), { 'Content-Encoding': 'br' }],
  ])('is refused %s', async (_name, body, headers: Record<string, string>) => {
    expect(await post(body, headers)).toBeError(
      'PAYLOAD_TOO_LARGE',
      `The body is larger than ${LIMIT} bytes.`,
    );
  });

  it('is refused in chunks', async () => {
    const chunk = `${LIMIT.toString(16)}\r\n${padded(LIMIT)}\r\n`;
    const [answer] = await sendRaw(
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
    expect(answer).toBeError('PAYLOAD_TOO_LARGE');
  });

  it.each([
    ['plain', []],
    ['as gzip', ['Content-Encoding: gzip']],
  ])('is refused in chunks that never end, %s', async (_name, encoding) => {
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
          bytes(`${(LIMIT * 10).toString(16)}\r\n`),
          // Random bytes stay as large as they are.
          encoding.length === 0 ? bytes(padded(LIMIT + 1)) : gzipSync(randomBytes(LIMIT + 1)),
        ]),
      }),
    );
    expect(await connection.nextResponse()).toBeError('PAYLOAD_TOO_LARGE');
    // The rest may still come; then there is nothing more to say.
    connection.endWrites();
    expect(await connection.closed()).toHaveLength(1);
  });

  it('is refused before it comes where it says its length, and is not asked for', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [
          'Content-Type: application/json',
          `Content-Length: ${LIMIT + 1}`,
          `Authorization: Bearer ${app.key}`,
          'Expect: 100-continue',
        ],
      }),
    );
    const answers = await connection.closed();
    expect(answers).toHaveLength(1);
    expect(answers[0]).toBeError('PAYLOAD_TOO_LARGE');
  });

  it('is measured against the configured limit', async () => {
    const small = await startApp({ config: { bodyLimit: 10 }, logger });
    const response = await small
      .http()
      .post('/v1/categories')
      .auth(small.key, { type: 'bearer' })
      .send({ name: 'dog' });
    await small.stop();
    expect(response).toBeError('PAYLOAD_TOO_LARGE', 'The body is larger than 10 bytes.');
  });
});

it('what was refused changed nothing', async () => {
  const before = (await get('/v1/categories')).text;
  const refused = [
    await post('{"name":""}'),
    await post('{"name":"dog","id":1}'),
    await post('{"name":"dog"'),
    await post(bytes('{"name":"\xff"}')),
    await post('{"name":"dog"}', { 'Content-Type': 'text/plain' }),
    await post('{"name":"dog"}'.padEnd(200_000)),
  ];
  expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400, 415, 413]);
  expect((await get('/v1/categories')).text).toBe(before);
});

describe('a path', () => {
  it.each([
    '/',
    '/v1',
    '/v1/',
    '/v2/categories',
    '/categories',
    '/v1/categories/1',
    '/v1/stubs',
    '/v1/stubs/ending',
    '/v1/stubs/ending/1/toys',
    '/favicon.ico',
    '/docs/nope',
    '/docs/../package.json',
    '/docs/%2e%2e/package.json',
    '/.env',
    '/constructor',
    '/__proto__',
  ])('that nothing is served at is not found: %s', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const [answer] = await sendRaw(
        app.url,
        rawRequest({ method, target: path, headers: ['Connection: close'] }),
      );
      expect(answer).toBeError('NOT_FOUND', `Nothing is served at ${path}.`);
    }
    expect.assertions(3);
  });

  it('that is not found has no body where it is asked for by HEAD', async () => {
    const response = await app.http().head('/v1/nope');
    expect(response.status).toBe(404);
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(response.text).toBeUndefined();
  });

  it.each(['/v1/pets/%zz', '/v1/pets/%', '/v1/pets/%ff', '/v1/%c3%28', '/docs/%', '/%'])(
    'that cannot be decoded is refused: %s',
    async (path) => {
      expect(await get(path)).toBeError('BAD_REQUEST', /decode/);
    },
  );

  it.each([
    ['/v1/categories', 'GET, HEAD, POST'],
    ['/v1/categories/', 'GET, HEAD, POST'],
    ['/v1/stubs/ending/1', 'GET, HEAD'],
    ['/v1/stubs/new', 'GET, HEAD'],
    ['/livez', 'GET, HEAD'],
    ['/readyz', 'GET, HEAD'],
    ['/docs', 'GET, HEAD'],
    ['/docs/', 'GET, HEAD'],
    ['/docs/swagger-ui-init.js', 'GET, HEAD'],
    ['/openapi.json', 'GET, HEAD'],
    ['/openapi.yaml', 'GET, HEAD'],
  ])('%s allows exactly %s', async (path, allow) => {
    const allowed = allow.split(', ');
    for (const method of allowed) {
      const request = app.http()[method.toLowerCase() as 'get' | 'head' | 'post'](path);
      expect((await request.auth(app.key, { type: 'bearer' })).status).not.toBe(405);
    }
    const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE'];
    for (const method of methods.filter((name) => !allowed.includes(name))) {
      const [answer] = await sendRaw(
        app.url,
        rawRequest({
          method,
          target: path,
          headers: [`Authorization: Bearer ${app.key}`, 'Connection: close'],
        }),
      );
      expect(answer).toBeError('METHOD_NOT_ALLOWED', `${method} is not served at ${path}.`);
      expect(answer?.headers).toMatchObject({ allow });
    }
  });

  it('that is not specified yet says so, and is no failure in the log', async () => {
    for (const path of ['/v1/stubs/ending/1', '/v1/stubs/new']) {
      const response = await get(path);
      expect(response).toBeError('NOT_IMPLEMENTED');
      expect(logger.forRequest(response.headers['x-request-id'])).toEqual([]);
    }
    expect.assertions(4);
  });

  it('that has passed its sunset is gone', async () => {
    jest.spyOn(Date, 'now').mockReturnValue(Date.parse('2999-01-01'));
    expect(await get('/v1/stubs/ending/1')).toBeError('GONE');
  });
});

describe('the request id', () => {
  it.each([
    '8f14e45f-ceea-467f-a1f0-1b2c3d4e5f60',
    'a',
    'id_1.2:3;4,5/6+7=8@9~a-b',
    'x'.repeat(128),
  ])('is the one that the client sends where it is sane: %s', async (id) => {
    for (const path of ['/livez', '/v1/categories', '/v1/nope', '/docs', '/%']) {
      expect((await app.http().get(path).set('X-Request-Id', id)).headers).toMatchObject({
        'x-request-id': id,
      });
    }
    expect.assertions(5);
  });

  it.each([
    ['empty', ['']],
    ['too long', ['x'.repeat(129)]],
    ['with a space', ['a b']],
    ['with a tab', ['a\tb']],
    ['with a quote', ['a"b']],
    ['with mark-up', ['<script>alert(1)</script>']],
    ['with a percent sign', ['a%0d%0ab']],
    ['with a terminal escape', ['a\\x1b[31m']],
    ['not ASCII', ['\u00e9']],
    ['given twice', ['a', 'b']],
  ])('is a new one where that of the client is %s', async (_name, ids) => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({
        target: '/livez',
        headers: [...ids.map((id) => `X-Request-Id: ${id}`), 'Connection: close'],
      }),
    );
    expect(answer?.status).toBe(200);
    expect(answer?.headers['x-request-id']).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
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
  ])('is on the answer of %s, and a new one each time', async (path, status) => {
    const [first, second] = [await app.http().get(path), await app.http().get(path)];
    expect([first.status, second.status]).toEqual([status, status]);
    const ids = [first, second].map(({ headers }) => headers['x-request-id']);
    expect(ids).toEqual([expect.stringMatching(/^\S+$/), expect.stringMatching(/^\S+$/)]);
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe('a handler that crashes', () => {
  it.each(Object.keys(CRASHES))('with %s is a 500 that tells nothing', async (crash) => {
    const response = await get(`/v1/crash/500/${encodeURIComponent(crash)}`);
    expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
    expect(JSON.stringify(response.headers)).not.toContain(SECRET);
    const [entry, ...others] = logger.forRequest(response.headers['x-request-id']);
    expect(entry).toMatchObject({ level: 'error' });
    expect(others).toEqual([]);
  });

  it('leaves its cause in the log, with its stack, under the request id', async () => {
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
    'leaves its cause in the log that the service writes (in production: %s)',
    async (production) => {
      const lines: string[] = [];
      for (const stream of [process.stdout, process.stderr]) {
        jest.spyOn(stream, 'write').mockImplementation((line) => {
          lines.push(String(line));
          return true;
        });
      }
      const config = { ...loadConfig({}), production };
      const own = await startAppWithModule(CrashModule, {
        logger: createLogger(config),
        config: { production },
      });
      const response = await own
        .http()
        .get('/v1/crash/500/an%20Error')
        .auth(own.key, { type: 'bearer' });
      await own.stop();
      jest.restoreAllMocks();
      own.app.useLogger(logger);

      expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
      const id = response.headers['x-request-id']!;
      const logged = lines.filter((line) => line.includes(id)).join('');
      expect(logged).toContain(SECRET);
      expect(logged).toContain('errors.test');
      expect(logged).toContain('GET /v1/crash/500/:crash');
      expect(lines.join('')).not.toContain(own.key);
      // One line of JSON for each entry, or text for a reader.
      const isJson = lines.every(
        (line) => line.startsWith('{') && line.indexOf('\n') === line.length - 1,
      );
      expect(isJson).toBe(production);
    },
  );

  it('is answered with the Error body alone, whatever it had begun to describe', async () => {
    const response = await get('/v1/crash/described');
    expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
    expect(response.headers).not.toHaveProperty('etag');
    expect(response.headers).not.toHaveProperty('content-encoding');
    expect(Number(response.headers['content-length'])).toBe(response.text.length);
  });

  it('half way through its answer cuts the connection, so that nobody takes it for whole', async () => {
    const request = rawRequest({
      target: '/v1/crash/half',
      headers: [`Authorization: Bearer ${app.key}`, 'X-Request-Id: half-way'],
    });
    const connection = await RawConnection.open(app.url);
    expect(await connection.send(request).closed()).toEqual([]);
    // Nothing that looks like a second answer comes after the half of the first.
    expect(connection.received).not.toContain('INTERNAL_ERROR');
    expect(connection.received.match(/HTTP\/1\.1/g)?.length ?? 0).toBeLessThanOrEqual(1);
    expect(logger.forRequest('half-way')).toMatchObject([{ level: 'error' }]);
  });

  it('after its answer changes nothing of it', async () => {
    const response = await get('/v1/crash/done');
    expect(response.status).toBe(200);
    expect(response.body).toEqual({ done: true });
    expect(logger.forRequest(response.headers['x-request-id'])).toMatchObject([{ level: 'error' }]);
  });

  it('leaves the service well', async () => {
    expect((await get('/v1/categories')).status).toBe(200);
    expect((await app.http().get('/readyz')).status).toBe(200);
  });
});

describe('an exception with a status', () => {
  it('of a 4xx keeps its message', async () => {
    expect(await get('/v1/crash/404')).toBeError('NOT_FOUND', 'There is no pet 7.');
  });

  it('carries the headers that belong to it', async () => {
    const response = await get('/v1/crash/503');
    expect(response).toBeError('SERVICE_UNAVAILABLE', 'Back soon.');
    expect(response.headers['retry-after']).toBe('7');
  });

  it.each([
    [406, 'NOT_ACCEPTABLE'],
    [418, 'I_M_A_TEAPOT'],
    [502, 'BAD_GATEWAY'],
  ])('that the table of codes lacks, %d, has the code %s', async (status, code) => {
    expect(Object.keys(ERROR_CODES)).not.toContain(code);
    const response = await get(`/v1/crash/${status}`);
    expect(response.status).toBe(status);
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(response.body).toEqual({
      code,
      message: expect.stringMatching(/\S/) as string,
      status,
    });
    expect(response.text).not.toContain(SECRET);
  });
});

/** Does something while a table is not there. */
async function without<T>(table: string, action: () => Promise<T>): Promise<T> {
  await app.dataSource.query(`ALTER TABLE "${table}" RENAME TO "${table}_broken"`);
  try {
    return await action();
  } finally {
    await app.dataSource.query(`ALTER TABLE "${table}_broken" RENAME TO "${table}"`);
  }
}

describe('a file of Swagger UI', () => {
  it.each([
    [412, { 'If-Match': '"other"' }],
    [416, { Range: 'bytes=999999999-' }],
  ])('can be a %d, with the Error body and a code of the table', async (status, headers) => {
    const response = await app.http().get('/docs/swagger-ui.css').set(headers);
    expect(response.status).toBe(status);
    expect(response.body).toEqual({
      code: expect.any(String) as string,
      message: expect.any(String) as string,
      status,
    });
    expect(Object.keys(ERROR_CODES)).toContain((response.body as { code: string }).code);
  });
});

describe('a broken database', () => {
  /** Words of either database and of what lies between it and the answer. */
  const INSIDE = /sql|table|relation|categories|api_keys|select|insert|typeorm|query|node_modules/i;

  beforeEach(async () => {
    // The key is known now, so that its table is not asked, and the list that was read before is old.
    await post('{"name":"dog"}');
  });

  it.each([
    ['a create', () => post('{"name":"dog"}')],
    ['a list', () => get('/v1/categories')],
  ])('makes %s a 500 that tells nothing, and the log has the cause', async (_name, send) => {
    const response = await without('categories', send);
    expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
    expect(response.text).not.toMatch(INSIDE);
    const [entry, ...others] = logger.forRequest(response.headers['x-request-id']);
    expect(others).toEqual([]);
    expect(entry?.values).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('categories') as string }),
    );
    expect((await send()).status).toBeLessThan(300);
  });

  it('lets nobody in who has not shown a key before', async () => {
    const response = await without('api_keys', () => get('/v1/categories', 'pet_unknown'));
    expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
    expect(response.text).not.toMatch(INSIDE);
    expect(response.headers).not.toHaveProperty('www-authenticate');
    expect((await get('/v1/categories', 'pet_unknown')).status).toBe(401);
  });

  it('fails every create of a group alike, and each with its own request id', async () => {
    const responses = await without('categories', () =>
      Promise.all(Array.from({ length: 5 }, () => post('{"name":"group"}'))),
    );
    for (const response of responses) expect(response).toBeError('INTERNAL_ERROR', HIDDEN);
    const ids = responses.map(({ headers }) => headers['x-request-id']);
    expect(new Set(ids).size).toBe(5);
    expect((await get('/v1/categories')).text).not.toContain('group');
  });
});

describe('a database that is gone', () => {
  it('makes the service not ready, and asks to try again', async () => {
    const own = await startApp({ logger });
    await own.dataSource.destroy();
    const ready = await own.http().get('/readyz');
    const live = await own.http().get('/livez');
    await own.stop();
    expect(ready).toBeError('SERVICE_UNAVAILABLE');
    expect(ready.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(live.status).toBe(200);
  });
});
