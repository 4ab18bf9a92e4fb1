import { hash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { Test } from 'supertest';
import { PetsModule } from '../../../examples/petstore/pets/pets.module.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import type { ErrorCode } from '../../../src/platform/errors/error-codes.js';
import { IdempotencyRecord } from '../../../src/platform/idempotency/idempotency-record.entity.js';
import { useApp } from '../support/app.js';
import { insertRow } from '../support/fixtures.js';
import type { HttpResponse } from '../support/http-client.js';

/** More than the limit of a JSON body. */
const IMAGE_LIMIT = 1_000_000;

const app = useApp({ features: [CategoriesModule, PetsModule] });
let path: string;
beforeAll(async () => {
  path = `/v1/pets/${await insertRow(app.dataSource, 'pets')}`;
});

const CHUNKED = { 'Transfer-Encoding': 'chunked' };
const GZIP = { 'Content-Encoding': 'gzip' };
const TOO_LARGE = Buffer.alloc(IMAGE_LIMIT + 1);

const upload = (body: Buffer | string, headers: object = {}): Promise<HttpResponse> =>
  app.send('POST', `${path}/uploadImage`, {
    headers: { 'content-type': 'application/octet-stream', ...headers },
    body,
  });

describe('POST /v1/pets/{petId}/uploadImage', () => {
  it.each<[string, Buffer, (image: Buffer) => Buffer, object]>([
    ['of its own limit', randomBytes(IMAGE_LIMIT), (image) => image, {}],
    ['in chunks', randomBytes(IMAGE_LIMIT), (image) => image, CHUNKED],
    ['that look like JSON', Buffer.from('{"a":'), (image) => image, {}],
    ['that are compressed', Buffer.alloc(IMAGE_LIMIT, 'image'), gzipSync, GZIP],
  ])('stores bytes %s', async (_name, image, encode, headers) => {
    const response = await upload(encode(image), headers);
    expect(response.status).toBe(201);
    const { id } = response.json<{ id: number }>();
    const { body } = await app.send('GET', `${path}/images/${id}`);
    expect(body.equals(image)).toBe(true);
  });

  it.each<[string, Buffer | string, object, ErrorCode, RegExp]>([
    ['a larger body', TOO_LARGE, {}, 'PAYLOAD_TOO_LARGE', /larger than 1000000 bytes/],
    ['a larger chunked body', TOO_LARGE, CHUNKED, 'PAYLOAD_TOO_LARGE', /larger than 1000000 bytes/],
    ['a body larger after decompression', gzipSync(TOO_LARGE), GZIP, 'PAYLOAD_TOO_LARGE', /larger/],
    ['another media type', '{}', { 'content-type': '' }, 'UNSUPPORTED_MEDIA_TYPE', /octet-stream/],
    ['an empty body in gzip', gzipSync(''), GZIP, 'VALIDATION_FAILED', /^request body is required/],
    ['an invalid encoding', 'no', GZIP, 'BAD_REQUEST', /^The body is not valid gzip\.$/],
    ['a body without a key', TOO_LARGE, { authorization: '' }, 'UNAUTHORIZED', /key/],
  ])('rejects %s', async (_name, body, headers, code, message) => {
    expect(await upload(body, headers)).toBeError(code, message);
  });

  it('repeats the response to an Idempotency-Key, also for the same bytes in gzip', async () => {
    const image = Buffer.from('image');
    const key = { 'Idempotency-Key': 'image' };
    const first = await upload(image, key);
    const former = hash('sha256', `POST ${path}/uploadImage\n${JSON.stringify(image)}`);
    for (let repetition = 0; repetition < 2; repetition++) {
      const repeated = await upload(gzipSync(image), { ...key, ...GZIP });
      expect(repeated.headers).toHaveProperty('idempotency-replayed', 'true');
      expect(repeated.text).toBe(first.text);
      expect(await upload('other', key)).toBeError('IDEMPOTENCY_KEY_REUSED');
      // The fingerprint that the previous release recorded.
      const records = app.dataSource.getRepository(IdempotencyRecord);
      await records.update({ value: 'image' }, { fingerprint: former });
    }
  });

  it('does not change the limit or the media type of other operations', async () => {
    const send = (type: string, body: string): Test =>
      app.http().post('/v1/pets').auth(app.key, { type: 'bearer' }).type(type).send(body);
    expect(await send('application/octet-stream', '{}')).toBeError('UNSUPPORTED_MEDIA_TYPE');
    const large = JSON.stringify({ name: 'x'.repeat(app.config.bodyLimit) });
    expect(await send('application/json', large)).toBeError('PAYLOAD_TOO_LARGE');
  });
});
