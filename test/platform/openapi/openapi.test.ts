import { readFile } from 'node:fs/promises';
import { Controller, Get, Post, Version } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { parse as parseYaml } from 'yaml';
import { createApp } from '../../../src/platform/application/create-app.js';
import { renderDocument } from '../../../src/cli/openapi.js';
import { FEATURES } from '../../../src/features.js';
import { SERVICE_FEATURES } from '../support/fixture.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { Category } from '../../../src/modules/categories/category.dto.js';
import { ApiError } from '../../../src/platform/errors/api-error.js';
import type { FeatureErrorCode } from '../../../src/platform/errors/error-codes.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { STANDARD_HEADERS } from '../../../src/platform/openapi/standard-responses.js';
import { Operation } from '../../../src/platform/resource/operation/operation.decorator.js';
import { findBacktracking } from '../../../tools/generator/read/backtracking.js';
import { startApp, useApp, toRoot } from '../support/app.js';
import { CagesModule } from '../support/cages.module.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import {
  type DocumentedOperation,
  getDeclaredRoutes,
  getOperations,
  getProtectedRoutes,
  type Route,
} from '../support/routes.js';
import { StubsModule } from '../support/stubs.module.js';
import { PRODUCT } from '../../../src/product.js';

const PRODUCTION = 'https://api.pets.example/shop/v1';
const STAGING = 'https://staging.pets.example/shop/v1';

const EMPTY: FeatureErrorCode = {
  code: 'CATEGORY_EMPTY',
  status: 409,
  description: 'the category has no pets',
};

@Controller('categories')
class NextController {
  @Get()
  @Version('2')
  @Operation({
    operationId: 'listCategoriesV2',
    response: 'Categories in an envelope.',
    returns: {
      type: 'object',
      properties: { items: { type: 'array', items: { type: () => Category } } },
    },
    errors: { 402: 'Pay first.', 404: '', 409: 'A conflict.', default: 'Any other.' },
  })
  list(): unknown[] {
    return [];
  }

  @Post()
  @Version('2')
  @Operation({ operationId: 'countPets', response: 'The number of pets.', errors: [409] })
  countPets(): never {
    throw new ApiError(EMPTY, 'Category 1 has no pets.');
  }
}
@Feature({
  tag: { name: 'next', description: 'Operations of another version.' },
  controllers: [NextController],
  errorCodes: [EMPTY],
})
class NextModule {}

type ResponseObject = { headers?: object };

/** The service with all features, at configured addresses, and its document. */
const app = useApp({
  features: [NextModule, ...FEATURES, StubsModule],
  config: {
    publicBaseUrl: PRODUCTION,
    stagingBaseUrl: STAGING,
    keyRequestsPerMinute: 100,
    contact: { email: 'help@pets.example' },
    product: { ...PRODUCT, guide: ['/docs/clients.md', '/examples/client.ts'] },
  },
});
let document: OpenAPIObject;
/** Only the categories, without a configured address or a guide. */
const { guide: _guide, ...product } = PRODUCT;
const local = useApp({ features: [CategoriesModule], config: { product } });
let localDocument: OpenAPIObject;
beforeAll(async () => {
  document = await app.getDocument();
  localDocument = await local.getDocument();
});

/** Returns the headers of the platform among others, in one order. */
const toPlatform = (headers: object): string[] =>
  Object.keys(STANDARD_HEADERS).filter((name) =>
    Object.keys(headers).some((each) => each.toLowerCase() === name.toLowerCase()),
  );

const toNames = (routes: Route[]): string[] =>
  routes.map(({ method, path }) => `${method} ${path}`).toSorted();

describe('openapi.json', () => {
  it('equals the output of `npm run openapi`', async () => {
    expect(await readFile('openapi.json', 'utf8')).toBe(
      await renderDocument(toRoot(SERVICE_FEATURES)),
    );
  });
});

describe('OpenAPI document', () => {
  it('contains exactly the operations of the service that are not excluded', () => {
    const routes = getDeclaredRoutes(app).filter(({ isExcluded }) => !isExcluded);
    expect(toNames(getOperations(document))).toEqual(toNames(routes));
    const isDeclared = new Set(toNames(getDeclaredRoutes(app)));
    expect(toNames(getProtectedRoutes(app)).filter((name) => !isDeclared.has(name))).toEqual([]);
  });

  it('contains no pattern that is too slow for some texts', () => {
    const patterns = new Map<string, number | undefined>();
    type Value = { pattern?: unknown; maxLength?: number; format?: string } | null;
    JSON.stringify(document, (_name, value: Value) => {
      // The repetitions of the service's own pattern of emails are bounded.
      if (typeof value?.pattern === 'string' && value.format !== 'email')
        patterns.set(value.pattern, value.maxLength);
      return value;
    });
    expect(patterns.size).toBeGreaterThan(0);
    for (const each of patterns)
      expect([each, findBacktracking(...each)]).toEqual([each, undefined]);
  });

  it('names the configured contact and servers, or else the deployment that serves it', () => {
    expect(document.info.contact).toEqual({ email: 'help@pets.example' });
    expect(localDocument.info).not.toHaveProperty('contact');
    expect(document.servers).toEqual([
      { url: PRODUCTION, description: 'Production', 'x-internal': false },
      { url: STAGING, description: 'Staging', 'x-internal': false },
    ]);
    const description = 'This deployment, local or without PUBLIC_BASE_URL';
    expect(localDocument.servers).toEqual([{ url: '/v1', description, 'x-internal': false }]);
  });

  it('links the guide of the product, which the service serves with its examples, or general pages', async () => {
    const [, path] = /\[client guide\]\((.*?)\)/.exec(document.info.description!)!;
    for (const file of [
      path!,
      '/docs/errors.md',
      '/docs/api-behaviour.md',
      '/examples/client.ts',
    ]) {
      const guide = await app.http().get(file);
      expect(guide).toMatchObject({ status: 200, type: 'text/plain' });
      expect(guide.text).toBe(await readFile(`.${file}`, 'utf8'));
    }
    expect(localDocument.info.description).not.toContain('clients.md');
    expect((await local.http().get(path!)).status).toBe(404);
    for (const [, page] of localDocument.info.description!.matchAll(/\((\/docs\/.*?)\)/g))
      expect((await local.http().get(page!)).status).toBe(200);
  });

  it('lists an operation of another version under its versioned path, with unversioned servers', async () => {
    expect(document.paths['/v2/categories']).toMatchObject({
      servers: [
        { url: 'https://api.pets.example/shop', description: 'Production' },
        { url: 'https://staging.pets.example/shop', description: 'Staging' },
      ],
      get: { operationId: 'listCategoriesV2' },
    });
    expect(document.paths['/categories']).not.toHaveProperty('servers');
    const response = await app.send('GET', '/v2/categories');
    expect(response).toMatchObject({ status: 200, text: '[]' });
  });

  it('describes the 501 of an operation that is not implemented, and no success', () => {
    const { responses } = document.paths['/stubs/deprecated/{id}']!.get!;
    expect(Object.keys(responses)).toEqual('401 403 410 429 500 501 503 default'.split(' '));
    expect(responses['501']).toMatchObject({
      description: 'Not implemented yet.',
      content: { 'application/json': { example: { code: 'NOT_IMPLEMENTED' } } },
      headers: { Deprecation: expect.anything(), Sunset: expect.anything() },
    });
  });

  it('refers to an error of the components, unless an operation describes one itself', () => {
    const { responses } = document.paths['/v2/categories']!.get!;
    expect(responses['404']).toEqual({ $ref: '#/components/responses/NotFound' });
    for (const [status, description, code] of [
      [409, 'A conflict.', 'ALREADY_EXISTS'],
      [402, 'Pay first.', 'PAYMENT_REQUIRED'],
    ] as const) {
      const example = { code, message: description, status };
      expect(responses[status]).toMatchObject({
        description,
        headers: { RateLimit: { $ref: '#/components/headers/RateLimit' } },
        content: { 'application/json': { example } },
      });
    }
    // The default has no status for an example.
    expect(responses['default']).toMatchObject({
      description: 'Any other.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    });
    expect(JSON.stringify(responses['default'])).not.toContain('example');
  });

  it('lists the error codes of the platform and of the features', async () => {
    expect(document.info.description).toMatch(
      /\| `SERVICE_UNAVAILABLE` \| 503 \| .* \|\n\| `CATEGORY_EMPTY` \| 409 \| the category has no pets \|\n/,
    );
    expect(localDocument.info.description).not.toContain('CATEGORY_EMPTY');
    const response = await app.send('POST', '/v2/categories');
    expect(response).toBeError(EMPTY, 'Category 1 has no pets.');
  });

  it('declares the headers of the platform that the responses have, and no others', async () => {
    const features = [StubsModule, CagesModule, CategoriesModule];
    const limited = await startApp({ features, config: { keyRequestsPerMinute: 12 } });
    const keys = limited.app.get(ApiKeysService);
    const { key: reader } = await keys.create('reader', { scopes: ['read'] });
    const own = await limited.getDocument();
    const json = jsonHeaders(limited.key);
    const once = { ...json, 'idempotency-key': 'once' };
    const statuses: number[] = [];
    try {
      for (const [method, path, headers = json, body, route = path] of [
        ['POST', '/categories', once, '{"name": "dog"}'],
        ['POST', '/categories', once, '{"name": "cat"}'],
        ['POST', '/categories', json, '{}'],
        ['POST', '/categories', json, `"${'a'.repeat(200_000)}"`],
        ['POST', '/categories', { ...json, 'content-type': 'text/plain' }, 'dog'],
        ['POST', '/categories', jsonHeaders(reader), '{"name": "dog"}'],
        ['GET', '/categories', jsonHeaders('unknown')],
        ['GET', '/categories'],
        ['GET', '/categories', { ...json, 'if-none-match': '*' }],
        ['GET', '/cages/1', json, undefined, '/cages/{cageId}'],
        [
          'PUT',
          '/cages/1',
          json,
          '{"label": "a", "room": "b", "shelfPosition": 1}',
          '/cages/{cageId}',
        ],
        ['GET', '/stubs/deprecated/1', json, undefined, '/stubs/deprecated/{id}'],
        ['GET', '/stubs/experimental'],
        ['GET', '/categories'],
        ['GET', '/categories'],
      ] as const) {
        const options = { method, headers, ...(body !== undefined && { body }) };
        const response = await sendRequest(`${limited.url}/v1${path}`, options);
        const item = own.paths[route] as Record<string, DocumentedOperation['operation']>;
        const declared = item[method.toLowerCase()]!.responses[response.status]!;
        const name = '$ref' in declared ? declared.$ref.split('/').at(-1)! : undefined;
        const { headers: names } = (
          name === undefined ? declared : own.components!.responses![name]
        ) as ResponseObject;
        statuses.push(response.status);
        expect([statuses, toPlatform(names!)]).toEqual([statuses, toPlatform(response.headers)]);
      }
    } finally {
      await limited.stop();
    }
    expect(statuses.join(' ')).toBe('201 422 400 413 415 403 401 200 304 404 428 501 501 200 429');
  });
});

describe('GET /openapi.json and /openapi.yaml', () => {
  it('return the same document without a key', async () => {
    const json = await app.http().get('/openapi.json');
    expect(json).toMatchObject({ status: 200, type: 'application/json' });
    const yaml = await app.http().get('/openapi.yaml').buffer();
    expect(yaml).toMatchObject({ status: 200, type: expect.stringMatching(/yaml/) });
    expect(parseYaml(yaml.text)).toEqual(json.body);
  });
});

describe('GET /docs', () => {
  it('tries the operations of each version at the address where the page was opened', async () => {
    const page = (await app.http().get('/docs/swagger-ui-init.js')).text.replaceAll(/\s/g, '');
    for (const [address, production] of [
      ['/', 'https://api.pets.example/shop'],
      ['/v1', PRODUCTION],
    ])
      expect(page).toContain(
        `"servers":[{"url":"${address}","description":"Thisdeployment"},{"url":"${production}","description":"Production"`,
      );
  });
});

describe('GET /', () => {
  it('redirects to the documentation without a key, relative to the path prefix of a proxy', async () => {
    const response = await app.http().get('/');
    expect(response.status).toBe(302);
    expect(response.headers['location']).toBe('docs');
    expect((await app.http().head('/')).status).toBe(302);
  });
});

describe('a feature with an error code that is not in upper snake case', () => {
  it.each(['categoryEmpty', '_EMPTY', `E${'X'.repeat(64)}`])('fails startup: %s', (code) => {
    const declare = () => Feature({ tag: [], errorCodes: [{ ...EMPTY, code }] });
    expect(declare).toThrow(`The error code ${code} is not`);
  });
});

describe('two features with the same route', () => {
  it('fail startup', async () => {
    @Controller('categories')
    class DuplicateController {
      @Get()
      list(): void {}
    }
    @Feature({
      tag: { name: 'duplicate', description: 'An operation of this test.' },
      controllers: [DuplicateController],
    })
    class DuplicateModule {}
    const features = [DuplicateModule, ...FEATURES];
    const other = await createApp(loadConfig(PRODUCT, {}), toRoot(features), { logger: false });
    await expect(other.init()).rejects.toThrow(/\/v1\/categories/);
  });
});
