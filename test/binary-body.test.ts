import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { OpenAPIObject } from '@nestjs/swagger';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { startApp, type TestApp } from './support/app.js';
import { CagesModule, IMAGE_LIMIT } from './support/cages.module.js';
import { type HttpResponse, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ features: [CategoriesModule, CagesModule] });
});
afterAll(() => app.stop());

const upload = (body: Buffer | string, headers: object = {}): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/cages/1/image`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${app.key}`,
      'Content-Type': 'application/octet-stream',
      ...(headers === CHUNKED ? {} : { 'Content-Length': Buffer.byteLength(body) }),
      ...headers,
    },
    body,
  });

const CHUNKED = { 'Transfer-Encoding': 'chunked' };

/** The status and the body of the response to an image that arrived unchanged. */
const received = (image: Buffer): unknown => [
  201,
  { id: 1, sha256: createHash('sha256').update(image).digest('hex') },
];

const summarize = (response: HttpResponse): unknown => [response.status, response.json()];

describe('an operation with a binary body', () => {
  it('receives the bytes, up to its own limit', async () => {
    const image = randomBytes(IMAGE_LIMIT);
    expect(summarize(await upload(image))).toEqual(received(image));
    expect(summarize(await upload(image, CHUNKED))).toEqual(received(image));
    const json = Buffer.from('{"a":');
    expect(summarize(await upload(json))).toEqual(received(json));
  });

  it('decompresses the body', async () => {
    const image = Buffer.alloc(IMAGE_LIMIT, 'image');
    expect(summarize(await upload(gzipSync(image), { 'Content-Encoding': 'gzip' }))).toEqual(
      received(image),
    );
  });

  it.each([
    ['a larger body', Buffer.alloc(IMAGE_LIMIT + 1), {}],
    ['a larger chunked body', Buffer.alloc(IMAGE_LIMIT + 1), CHUNKED],
    [
      'a body that is larger after decompression',
      gzipSync(Buffer.alloc(IMAGE_LIMIT + 1)),
      { 'Content-Encoding': 'gzip' },
    ],
  ])('rejects %s with 413', async (_name, body, headers) => {
    expect(await upload(body, headers)).toBeError(
      'PAYLOAD_TOO_LARGE',
      `The body is larger than ${IMAGE_LIMIT} bytes.`,
    );
  });

  it.each(['application/json', 'image/png', ''])(
    'rejects the media type %j with 415',
    async (type) => {
      expect(await upload('{}', { 'Content-Type': type })).toBeError(
        'UNSUPPORTED_MEDIA_TYPE',
        'The Content-Type of the body must be application/octet-stream.',
      );
    },
  );

  it('rejects a missing body and an invalid encoding with 400', async () => {
    expect(await upload('')).toBeError('VALIDATION_FAILED', 'request body is required.');
    expect(await upload('no', { 'Content-Encoding': 'gzip' })).toBeError(
      'BAD_REQUEST',
      'The body is not valid gzip.',
    );
    expect(await upload('no', { 'Content-Encoding': 'zstd' })).toBeError('UNSUPPORTED_MEDIA_TYPE');
  });

  it('checks the key before the body', async () => {
    const response = await upload(Buffer.alloc(IMAGE_LIMIT + 1), { Authorization: '' });
    expect(response).toBeError('UNAUTHORIZED');
  });

  it('does not change the limit and the media type of others', async () => {
    const send = (type: string, body: string): Promise<HttpResponse> =>
      sendRequest(`${app.url}/v1/cages`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${app.key}`,
          'Content-Type': type,
          'Content-Length': body.length,
        },
        body,
      });
    expect(await send('application/octet-stream', '{}')).toBeError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The Content-Type of the body must be application/json.',
    );
    const large = JSON.stringify({ label: 'x'.repeat(app.config.bodyLimit) });
    expect(await send('application/json', large)).toBeError('PAYLOAD_TOO_LARGE');
  });

  it('is documented', async () => {
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(paths['/cages/{cageId}/image']!.post).toMatchObject({
      requestBody: {
        required: true,
        content: {
          'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
        },
      },
      responses: { 413: {}, 415: {} },
    });
  });
});
