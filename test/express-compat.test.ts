import { type IncomingMessage, request as send, type ServerOptions } from 'node:http';
import { Controller, Get, Header, Post, Redirect, Req, Res } from '@nestjs/common';
import type { Express, Request, Response } from 'express';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../src/platform/auth/keys/api-keys.service.js';
import { Public } from '../src/platform/auth/public.decorator.js';
import { loadConfig } from '../src/platform/config/config.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { HttpAdapter } from '../src/platform/http/server/http.adapter.js';
import { startApp, type TestApp } from './support/app.js';
import { setSystemTime } from './support/clock.js';
import { sendRequest } from './support/http-client.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { StubsModule } from './support/stubs.module.js';

const { jest } = import.meta;

const KEY = 'api-key-shared-by-both-applications';
const config = { ...loadConfig({}), trustProxy: 'loopback' };

/** The adapter with Node's own classes, so that Express changes the prototype of their instances. */
class PlainAdapter extends HttpAdapter {
  protected override serverOptions(app: Express): ServerOptions {
    const { request, response } = app;
    const { IncomingMessage: _, ServerResponse: __, ...options } = super.serverOptions(app);
    Object.assign(app, { request, response });
    return options;
  }
}

/** Uses every part of Express's request and response API. */
@Controller('express')
class ExpressController {
  @Get('request')
  request(@Req() request: Request): unknown {
    return {
      accepts: request.accepts(['json', 'html']),
      acceptsCharsets: request.acceptsCharsets('utf-8'),
      acceptsEncodings: request.acceptsEncodings('gzip', 'br'),
      acceptsLanguages: request.acceptsLanguages('de', 'en'),
      baseUrl: request.baseUrl,
      fresh: request.fresh,
      get: [request.get('host'), request.header('X-Test'), request.get('Referrer')],
      host: request.host,
      hostname: request.hostname,
      httpVersion: request.httpVersion,
      id: request.id,
      ip: request.ip,
      ips: request.ips,
      is: request.is('json'),
      method: request.method,
      originalUrl: request.originalUrl,
      params: request.params,
      path: request.path,
      protocol: request.protocol,
      query: request.query,
      range: request.range(1_000),
      secure: request.secure,
      stale: request.stale,
      subdomains: request.subdomains,
      url: request.url,
      xhr: request.xhr,
      // Only a request whose key had to be looked up has waited.
      ownKeys: Object.keys(request)
        .filter((name) => name !== 'waits')
        .toSorted(),
    };
  }

  @Get('json')
  json(@Res() response: Response): void {
    response.status(203).json({ text: 'Zoë <&>', nothing: null, left: undefined, list: [1, 'a'] });
  }

  @Get('jsonp')
  jsonp(@Res() response: Response): void {
    response.jsonp({ text: '\u2028' });
  }

  @Get('send')
  send(@Res() response: Response): void {
    response.send('<p>text</p>');
  }

  @Get('send-buffer')
  sendBuffer(@Res() response: Response): void {
    response.type('png').send(Buffer.from('bytes'));
  }

  @Get('send-nothing')
  sendNothing(@Res() response: Response): void {
    response.sendStatus(204);
  }

  @Get('headers')
  headers(@Res() response: Response): void {
    response
      .set('X-One', '1')
      .append('X-One', '2')
      .vary('Origin')
      .links({ next: '/next' })
      .location('/el sewhere')
      .attachment('fäil.txt')
      .cookie('name', 'välue', { httpOnly: true, maxAge: 0, sameSite: 'lax' })
      .clearCookie('other')
      .end();
  }

  @Get('format')
  format(@Res() response: Response): void {
    response.format({
      text: () => response.send('text'),
      html: () => response.send('<p>html</p>'),
    });
  }

  @Get('redirect')
  redirect(@Res() response: Response): void {
    response.redirect(303, '/livez?a=ö');
  }

  @Get('nest-redirect')
  @Redirect('/livez', 308)
  nestRedirect(): void {
    // Nest sends the redirect.
  }

  @Get('stream')
  stream(@Res() response: Response): void {
    response.write('one ');
    response.write('two');
    response.end();
  }

  @Get('nest-text')
  @Header('X-Nest', 'yes')
  nestText(): string {
    return 'text';
  }

  @Get('nothing')
  nothing(): void {
    // Nest sends an empty response.
  }

  @Get('locals')
  locals(@Req() request: Request, @Res() response: Response): void {
    response.locals['seen'] = response.req === request && request.res === response;
    response.json([response.locals, response.headersSent, response.app === request.app]);
  }

  @Get('crash')
  crash(): never {
    throw new Error('internal details');
  }

  @Post('body')
  body(@Req() request: Request): unknown {
    return { body: request.body as unknown, type: request.is(['json', 'text']) };
  }

  /** Records the prototypes of the request and the response in a handler. */
  @Public()
  @Get('prototypes')
  prototypes(@Req() request: Request, @Res() response: Response): void {
    handlerPrototypes = [Object.getPrototypeOf(request), Object.getPrototypeOf(response)];
    response.end();
  }
}

@Feature({
  tag: { name: 'express', description: 'Operations of this test.' },
  controllers: [ExpressController],
})
class ExpressModule {}

let handlerPrototypes: unknown[] = [];
let fast: TestApp;
let plain: TestApp;
beforeAll(async () => {
  const options = {
    features: [CategoriesModule, ExpressModule, StubsModule],
    config: { trustProxy: config.trustProxy },
  };
  fast = await startApp(options);
  plain = await startApp({ ...options, adapter: new PlainAdapter(config) });
  for (const { app } of [fast, plain]) await app.get(ApiKeysService).ensureKey(KEY, 'both');
});
afterAll(() => Promise.all([fast.stop(), plain.stop()]));

interface TestRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** Returns the response without its date: status, headers in their original order and case, and body. */
function fetchResponse(
  app: TestApp,
  { method = 'GET', path, headers = {}, body }: TestRequest,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const all = {
      Host: 'petstore.example',
      Authorization: `Bearer ${KEY}`,
      'X-Request-Id': 'same',
      ...headers,
    };
    const { port } = new URL(app.url);
    const request = send({ port, method, path, headers: all, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .once('error', reject)
        .once('end', () =>
          resolve({
            status: [response.statusCode, response.statusMessage],
            headers: getHeaderPairs(response).map(([name, value]) => [
              name,
              name === 'Date' ? '' : value,
            ]),
            body: Buffer.concat(chunks).toString('latin1'),
          }),
        );
    });
    request.once('error', reject).end(body);
  });
}

function getHeaderPairs({ rawHeaders }: IncomingMessage): [string, string][] {
  return Array.from({ length: rawHeaders.length / 2 }, (_, index) => [
    rawHeaders[2 * index]!,
    rawHeaders[2 * index + 1]!,
  ]);
}

const json = { 'Content-Type': 'application/json' };
const category = JSON.stringify({ name: 'dog', description: 'x'.repeat(900) });

/** Sent in this order to both applications: the lists contain the categories created before. */
const REQUESTS: (TestRequest & { readonly status: number })[] = [
  { path: '/v1/categories', status: 200 },
  { method: 'POST', path: '/v1/categories', headers: json, body: category, status: 201 },
  { method: 'POST', path: '/v1/categories', headers: json, body: category, status: 201 },
  { path: '/v1/categories', status: 200 },
  { method: 'HEAD', path: '/v1/categories', status: 200 },
  { path: '/v1/categories', headers: { 'Accept-Encoding': 'gzip' }, status: 200 },
  { method: 'HEAD', path: '/v1/categories', headers: { 'Accept-Encoding': 'gzip' }, status: 200 },
  { path: '/v1/categories', headers: { 'If-None-Match': '*' }, status: 304 },
  { method: 'POST', path: '/v1/categories', headers: json, body: '{"id":1}', status: 400 },
  { method: 'POST', path: '/v1/categories', headers: json, body: '{', status: 400 },
  { method: 'POST', path: '/v1/categories', headers: json, status: 400 },
  { method: 'POST', path: '/v1/categories', body: category, status: 415 },
  {
    method: 'POST',
    path: '/v1/categories',
    headers: json,
    body: 'x'.repeat(200_000),
    status: 413,
  },
  { path: '/v1/categories', headers: { Authorization: '' }, status: 401 },
  { path: '/v1/categories', headers: { Authorization: 'Bearer unknown' }, status: 401 },
  { method: 'HEAD', path: '/v1/categories', headers: { Authorization: '' }, status: 401 },
  { method: 'DELETE', path: '/v1/categories', status: 405 },
  { method: 'OPTIONS', path: '/v1/categories', status: 405 },
  { path: '/v1/stubs/deprecated/1', status: 501 },
  { path: '/v1/stubs/deprecated/%zz', status: 400 },
  { path: '/v1/stubs/experimental', status: 501 },
  { path: '/v1/nope', status: 404 },
  { method: 'HEAD', path: '/v1/nope', status: 404 },
  { path: '/livez', status: 200 },
  { method: 'HEAD', path: '/livez', status: 200 },
  { path: '/readyz', status: 200 },
  { path: '/openapi.json', status: 200 },
  { path: '/openapi.yaml', status: 200 },
  { method: 'HEAD', path: '/openapi.json', status: 200 },
  { path: '/docs', status: 200 },
  { path: '/docs/', status: 200 },
  { method: 'HEAD', path: '/docs', status: 200 },
  { method: 'POST', path: '/docs', status: 405 },
  { path: '/docs/swagger-ui-init.js', status: 200 },
  { path: '/docs/swagger-ui.css', status: 200 },
  { method: 'HEAD', path: '/docs/swagger-ui.css', status: 200 },
  { path: '/docs/swagger-ui.css', headers: { Range: 'bytes=0-99' }, status: 206 },
  { path: '/docs/swagger-ui.css', headers: { Range: 'bytes=999999999-' }, status: 416 },
  { path: '/docs/swagger-ui.css', headers: { 'If-None-Match': '*' }, status: 304 },
  { path: '/docs/swagger-ui.css', headers: { 'If-Match': '"other"' }, status: 412 },
  { path: '/docs/nope', status: 404 },
  { path: '/docs/../package.json', status: 404 },
  { path: '/v1/express/json', status: 203 },
  { method: 'HEAD', path: '/v1/express/json', status: 203 },
  { path: '/v1/express/jsonp?callback=f', status: 200 },
  { path: '/v1/express/send', status: 200 },
  { path: '/v1/express/send-buffer', status: 200 },
  { path: '/v1/express/send-nothing', status: 204 },
  { path: '/v1/express/headers', status: 200 },
  { path: '/v1/express/format', headers: { Accept: 'text/html' }, status: 200 },
  { path: '/v1/express/format', headers: { Accept: 'image/png' }, status: 406 },
  { path: '/v1/express/redirect', status: 303 },
  { path: '/v1/express/redirect', headers: { Accept: 'text/html' }, status: 303 },
  { path: '/v1/express/nest-redirect', status: 308 },
  { path: '/v1/express/stream', status: 200 },
  { path: '/v1/express/nest-text', status: 200 },
  { path: '/v1/express/nothing', status: 200 },
  { path: '/v1/express/locals', status: 200 },
  { path: '/v1/express/crash', status: 500 },
  { method: 'POST', path: '/v1/express/body', headers: json, body: '[1]', status: 201 },
  { path: '/v1/express/request', status: 200 },
  { path: '/v1/express/request?a=1&a=2&b[c]=d&e=%C3%B6&f=%zz&__proto__=x', status: 200 },
  {
    path: '/v1/express/request',
    headers: {
      Host: 'a.b.petstore.example:8080',
      Accept: 'text/html;q=0.5, application/json',
      'Accept-Charset': 'utf-8',
      'Accept-Encoding': 'br',
      'Accept-Language': 'en',
      'Content-Type': 'application/json',
      Range: 'bytes=0-9',
      Referer: 'http://elsewhere.example/',
      'X-Forwarded-For': '203.0.113.7, 127.0.0.1',
      'X-Forwarded-Host': 'public.example',
      'X-Forwarded-Proto': 'https',
      'X-Requested-With': 'XMLHttpRequest',
      'X-Test': 'yes',
    },
    status: 200,
  },
];

describe('HttpAdapter', () => {
  afterEach(() => jest.restoreAllMocks());

  const namedRequests = REQUESTS.map(({ status, ...request }) => {
    const { method = 'GET', path, headers = {} } = request;
    return [
      `${status}: ${[method, path, ...Object.keys(headers)].join(' ')}`,
      status,
      request,
    ] as const;
  });

  it.each(namedRequests)('responds like plain Express: %s', async (_name, status, request) => {
    // Express computes when a cookie expires from the current time.
    setSystemTime(Date.now());
    const [response, expected] = [
      await fetchResponse(fast, request),
      await fetchResponse(plain, request),
    ];
    expect(response).toEqual(expected);
    expect(response).toMatchObject({ status: [status, expect.any(String)] });
  });

  it('detects the client address behind a trusted proxy like plain Express', async () => {
    const headers = { 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Proto': 'https' };
    for (const { url } of [fast, plain]) {
      const response = await sendRequest(`${url}/v1/express/request`, {
        headers: { authorization: `Bearer ${KEY}`, ...headers },
      });
      expect(response.json()).toMatchObject({
        ip: '203.0.113.7',
        ips: ['203.0.113.7'],
        protocol: 'https',
        secure: true,
        query: {},
      });
    }
    expect.assertions(2);
  });

  it.each([
    ['invalid HTTP', 'nonsense\r\n\r\n'],
    [
      'a missing Host header',
      rawRequest({ host: false, headers: ['Connection: close', 'X-Request-Id: same'] }),
    ],
    [
      'an unsupported Expect header',
      rawRequest({ headers: ['Expect: tea', 'Connection: close', 'X-Request-Id: same'] }),
    ],
    ['CONNECT', rawRequest({ method: 'CONNECT', target: 'x:1', headers: ['X-Request-Id: same'] })],
  ])('rejects like plain Express: %s', async (_name, bytes) => {
    const received: string[] = [];
    for (const { url } of [fast, plain]) {
      const connection = await RawConnection.open(url);
      await connection.send(bytes).closed();
      received.push(connection.received.replaceAll(/^(Date|X-Request-Id): .*$/gm, '$1'));
    }
    expect(received[0]).toMatch(/^HTTP\/1\.1 4/);
    expect(received[0]).toBe(received[1]);
  });
});

/** Returns the prototypes of a request and its response before Express handles them and in a handler. */
async function getPrototypes({
  server,
  url,
}: TestApp): Promise<{ initial: unknown[]; inHandler: unknown[] }> {
  let initial: unknown[] = [];
  server.prependOnceListener('request', (request, response) => {
    initial = [Object.getPrototypeOf(request), Object.getPrototypeOf(response)];
  });
  const response = await sendRequest(`${url}/v1/express/prototypes`);
  expect(response.status).toBe(200);
  return { initial, inHandler: handlerPrototypes };
}

describe('Express prototype change', () => {
  it('is avoided by HttpAdapter', async () => {
    const { initial, inHandler } = await getPrototypes(fast);
    expect(initial).toHaveLength(2);
    expect(inHandler[0]).toBe(initial[0]);
    expect(inHandler[1]).toBe(initial[1]);
  });

  it('occurs with PlainAdapter (control test)', async () => {
    const { initial, inHandler } = await getPrototypes(plain);
    expect(initial).toHaveLength(2);
    expect(inHandler[0]).not.toBe(initial[0]);
    expect(inHandler[1]).not.toBe(initial[1]);
  });
});
