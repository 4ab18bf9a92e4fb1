import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Controller, Get, Version } from '@nestjs/common';
import { ApiConflictResponse, ApiOperation, type OpenAPIObject } from '@nestjs/swagger';
import { parse as parseYaml } from 'yaml';
import { createApp } from '../src/app.js';
import { renderDocument } from '../src/cli/openapi.js';
import { FEATURES } from '../src/features.js';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { loadConfig } from '../src/platform/config/config.js';
import { ERROR_CODES } from '../src/platform/errors/error-codes.js';
import { Feature } from '../src/platform/feature.decorator.js';
import type { ServiceInfo } from '../src/platform/openapi/service-info.controller.js';
import { startApp, type TestApp } from './support/app.js';
import { KitsModule } from './support/kits.module.js';
import { StubsModule } from './support/stubs.module.js';
import { getOperations, getProtectedRoutes } from './support/routes.js';

const ROOT = join(import.meta.dirname, '..');
const PRODUCTION = 'https://api.pets.example/shop/v1';
const STAGING = 'https://staging.pets.example/shop/v1';
const ERROR_CONTENT = {
  'application/json': { schema: { $ref: '#/components/schemas/Error' } },
};

let app: TestApp;
let document: OpenAPIObject;
beforeAll(async () => {
  app = await startApp({ config: { publicBaseUrl: PRODUCTION, stagingBaseUrl: STAGING } });
  document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
});
afterAll(() => app.stop());

describe('OpenAPI document', () => {
  it('declares the OpenAPI version and the API version', () => {
    expect(document.openapi).toBe('3.0.3');
    expect(document.info).toMatchObject({ title: 'Petstore', version: '1.0.0' });
  });

  it('lists every error code in the description', () => {
    const codes = Object.entries(ERROR_CODES);
    expect(codes.length).toBeGreaterThan(10);
    for (const [code, { status, description }] of codes)
      expect(document.info.description).toContain(`| \`${code}\` | ${status} | ${description} |`);
  });

  it('contains exactly the operations that the service offers with a key', () => {
    const documented = getOperations(document).map(({ method, path }) => ({
      method,
      path: (/^\/v\d/.test(path) ? path : `/v1${path}`).replaceAll(/\{(\w+)\}/g, ':$1'),
    }));
    const routes = getProtectedRoutes(app);
    expect(routes).toEqual(expect.arrayContaining(documented));
    expect(documented).toEqual(expect.arrayContaining(routes));
  });

  it('contains exactly the specified operations on categories', () => {
    const operations = getOperations(document).filter(({ path }) => path === '/categories');
    expect(
      operations.map(({ method, path, operation }) => [method, path, operation.operationId]),
    ).toEqual([
      ['GET', '/categories', 'listCategories'],
      ['POST', '/categories', 'createCategory'],
    ]);
  });

  it('lists the configured servers', () => {
    expect(document.servers).toEqual([
      { url: PRODUCTION, description: 'Production' },
      { url: STAGING, description: 'Staging' },
    ]);
  });

  it('lists only the deployment that serves it when no address is configured', async () => {
    const local = await startApp();
    try {
      const { body } = await local.http().get('/openapi.json');
      expect((body as OpenAPIObject).servers).toEqual([
        { url: '/v1', description: 'This deployment' },
      ]);
      const page = (await local.http().get('/docs/swagger-ui-init.js')).text;
      expect(page.match(/This deployment/g)).toHaveLength(1);
      expect(page).not.toContain('Production');
    } finally {
      await local.stop();
    }
  });

  it('lists an operation of another version under its versioned path, with unversioned servers', async () => {
    @Controller('categories')
    class NextController {
      @Get()
      @Version('2')
      @ApiOperation({ operationId: 'listCategoriesV2', summary: 'List categories' })
      list(): unknown[] {
        return [];
      }
    }
    @Feature({
      tag: { name: 'next', description: 'Operations of this test.' },
      controllers: [NextController],
    })
    class NextModule {}
    const next = await startApp({
      features: [NextModule, ...FEATURES],
      config: { publicBaseUrl: PRODUCTION },
    });
    try {
      const { paths } = (await next.http().get('/openapi.json')).body as OpenAPIObject;
      expect(paths['/v2/categories']).toMatchObject({
        servers: [{ url: 'https://api.pets.example/shop', description: 'Production' }],
        get: { operationId: 'listCategoriesV2' },
      });
      expect(paths['/categories']).not.toHaveProperty('servers');
      // Swagger UI can try it at whatever address the page was opened.
      const page = (await next.http().get('/docs/swagger-ui-init.js')).text;
      expect(page.replaceAll(/\s/g, '')).toContain(
        '"servers":[{"url":"/","description":"Thisdeployment"},{"url":"https://api.pets.example/shop","description":"Production"}]',
      );
      for (const [path, body] of [
        ['/v2/categories', []],
        ['/v1/categories', []],
      ] as const) {
        const response = await next.http().get(path).auth(next.key, { type: 'bearer' });
        expect([path, response.status, response.body]).toEqual([path, 200, body]);
      }
    } finally {
      await next.stop();
    }
  });

  it('requires an API key as bearer token for every operation that is not public', () => {
    const schemes = document.components!.securitySchemes!;
    const [name, ...others] = Object.keys(schemes);
    expect(others).toEqual([]);
    expect(schemes[name!]).toMatchObject({ type: 'http', scheme: 'bearer' });
    // Nest defaults to `bearerFormat: 'JWT'`; API keys are not JSON Web Tokens.
    expect(schemes[name!]).not.toMatchObject({ bearerFormat: 'JWT' });
    expect(document.security).toEqual([{ [name!]: [] }]);
    for (const { operation } of getOperations(document))
      expect([undefined, []]).toContainEqual(operation.security);
  });

  it('documents an operation id, a summary, a tag and the error responses of every operation', () => {
    const tags = document.tags!.map(({ name }) => name);
    const error = { description: expect.stringMatching(/\S/), content: ERROR_CONTENT } as unknown;
    const operations = getOperations(document);
    for (const { method, path, operation } of operations) {
      expect({ method, path, ...operation }).toMatchObject({
        method,
        path,
        operationId: expect.stringMatching(/^[a-z][A-Za-z]+(V\d+)?$/),
        summary: expect.stringMatching(/^[A-Z].*[^.]$/),
        tags: [expect.any(String)],
        responses: {
          ...(operation.security === undefined ? { '401': error, '403': error, '429': error } : {}),
          ...(operation.requestBody === undefined
            ? {}
            : { '400': error, '413': error, '415': error }),
          '500': error,
          '503': error,
        },
      });
      expect(tags).toContain(operation.tags![0]);
    }
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('describes every response', () => {
    const responses = getOperations(document).flatMap(({ method, path, operation }) =>
      Object.entries(operation.responses).map(([status, response]) => ({
        name: `${method} ${path} ${status}`,
        response,
      })),
    );
    expect(responses.length).toBeGreaterThan(0);
    expect(
      responses.filter(
        ({ response }) => !('description' in response!) || response.description === '',
      ),
    ).toEqual([]);
  });

  it('describes the response of listCategories', () => {
    const { responses, requestBody, parameters } = document.paths['/categories']!.get!;
    expect(responses['200']).toMatchObject({
      description: 'All categories available.',
      content: {
        'application/json': {
          schema: { type: 'array', items: { $ref: '#/components/schemas/Category' } },
        },
      },
    });
    expect(requestBody).toBeUndefined();
    expect(parameters).toEqual([expect.objectContaining({ name: 'If-None-Match', in: 'header' })]);
    expect(Object.keys(responses)).toEqual(['200', '304', '401', '403', '429', '500', '503']);
  });

  it('describes the request body and responses of createCategory', () => {
    const { responses, requestBody, parameters } = document.paths['/categories']!.post!;
    expect(requestBody).toMatchObject({
      required: true,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/NewCategory' } } },
    });
    expect(responses['201']).toMatchObject({
      description: 'The created category.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Category' } } },
    });
    expect(Object.keys(responses).toSorted()).toEqual(
      '201 400 401 403 413 415 422 429 500 503'.split(' '),
    );
    expect(parameters).toMatchObject([{ name: 'Idempotency-Key', in: 'header', required: false }]);
    expect(responses['201']).toMatchObject({ headers: { 'Idempotency-Replayed': {} } });
  });

  it('describes the 501 of an operation that is not implemented, and no success', async () => {
    const stubs = await startApp({ features: [StubsModule, ...FEATURES] });
    try {
      const { paths } = (await stubs.http().get('/openapi.json')).body as OpenAPIObject;
      const { responses } = paths['/stubs/deprecated/{id}']!.get!;
      expect(Object.keys(responses)).toEqual([
        '401',
        '403',
        '410',
        '429',
        '500',
        '501',
        '503',
        'default',
      ]);
      expect(responses['501']).toMatchObject({
        content: ERROR_CONTENT,
        headers: { Deprecation: expect.anything(), Sunset: expect.anything() },
      });
    } finally {
      await stubs.stop();
    }
  });

  it('adds the Error body to an error that is declared without one', async () => {
    @Controller('conflicts')
    class ConflictsController {
      @Get()
      @ApiOperation({ operationId: 'listConflicts', summary: 'List conflicts' })
      @ApiConflictResponse({ description: 'A conflict.' })
      list(): unknown[] {
        return [];
      }
    }
    @Feature({
      tag: { name: 'conflicts', description: 'Operations of this test.' },
      controllers: [ConflictsController],
    })
    class ConflictsModule {}
    const conflicts = await startApp({ features: [ConflictsModule] });
    try {
      const { paths } = (await conflicts.http().get('/openapi.json')).body as OpenAPIObject;
      expect(paths['/conflicts']!.get!.responses['409']).toMatchObject({
        description: 'A conflict.',
        content: ERROR_CONTENT,
      });
    } finally {
      await conflicts.stop();
    }
  });

  it('contains only headers that an operation refers to', async () => {
    const categories = await startApp({ features: [CategoriesModule] });
    try {
      const { components } = (await categories.http().get('/openapi.json')).body as OpenAPIObject;
      const names = Object.keys(components!.headers!);
      expect(names).toContain('X-Request-Id');
      expect(names).not.toContain('Deprecation');
      expect(names).not.toContain('Sunset');
    } finally {
      await categories.stop();
    }
  });

  it('declares headers that the responses have', async () => {
    const limited = await startApp({
      features: [StubsModule, ...FEATURES],
      config: { keyRequestsPerMinute: 6 },
    });
    const { paths } = (await limited.http().get('/openapi.json')).body as OpenAPIObject;
    const send = async (path: string, documentedPath = path, key = limited.key) => {
      const response = await limited.http().get(`/v1${path}`).auth(key, { type: 'bearer' });
      const documented = paths[documentedPath]!.get!.responses[response.status]!;
      const headers = Object.keys('headers' in documented ? documented.headers! : {});
      return {
        status: response.status,
        missing: headers.filter((name) => response.headers[name.toLowerCase()] === undefined),
      };
    };
    try {
      const statuses = [];
      for (const [path, documentedPath, key] of [
        ['/categories'],
        ['/categories', '/categories', 'unknown'],
        ['/stubs/deprecated/1', '/stubs/deprecated/{id}'],
        ...Array.from({ length: 5 }, () => ['/categories'] as const),
      ] as const) {
        const { status, missing } = await send(path, documentedPath, key);
        expect(missing).toEqual([]);
        statuses.push(status);
      }
      expect(new Set(statuses)).toEqual(new Set([200, 401, 501, 429]));
    } finally {
      await limited.stop();
    }
  });

  const name = {
    type: 'string',
    minLength: 1,
    maxLength: 100,
    pattern: expect.any(String),
    description: 'Category name.',
    example: expect.any(String),
  };
  const description = {
    type: 'string',
    maxLength: 1000,
    description: 'Short description of the category.',
    example: expect.any(String),
  };

  it('defines exactly the specified schemas', () => {
    const { Category, NewCategory, Error } = document.components!.schemas!;
    expect({ Category, NewCategory, Error }).toEqual({
      Category: {
        type: 'object',
        required: ['id', 'name'],
        properties: {
          id: {
            type: 'integer',
            format: 'int64',
            minimum: 1,
            maximum: Number.MAX_SAFE_INTEGER,
            description: expect.any(String),
            example: expect.any(Number),
          },
          name,
          description,
        },
      },
      NewCategory: {
        type: 'object',
        required: ['name'],
        additionalProperties: false,
        properties: { name, description },
      },
      Error: {
        type: 'object',
        required: ['code', 'message', 'status'],
        properties: {
          code: { type: 'string', description: expect.any(String), example: expect.any(String) },
          message: { type: 'string', description: expect.any(String), example: expect.any(String) },
          status: {
            type: 'integer',
            format: 'int32',
            minimum: 400,
            maximum: 599,
            description: expect.any(String),
            example: expect.any(Number),
          },
        },
      },
    });
  });

  it('declares a name pattern that matches exactly the accepted names', async () => {
    const schema = document.components!.schemas!['NewCategory']!;
    const property = 'properties' in schema ? schema.properties!['name']! : {};
    const pattern = new RegExp('pattern' in property ? property.pattern! : 'missing', 'u');
    const names = ['dog', ' dog ', '🐶', '\u0301', ' ', '\u0085', '\u00A0', '\u3000', '\u200B'];
    for (const example of names) {
      const { status } = await app.categories.create(example);
      expect([example, status]).toEqual([example, pattern.test(example) ? 201 : 400]);
    }
  });

  it.each(['/openapi.json', '/openapi-3.1.json'])(
    "passes Redocly's recommended rules as %s",
    async (path) => {
      const { paths: served, ...rest } = (await app.http().get(path)).body as OpenAPIObject;
      const directory = await mkdtemp(join(tmpdir(), 'petstore-openapi-'));
      try {
        const file = join(directory, 'openapi.json');
        // The invalid operation proves that the linter reports errors at all.
        const paths = { ...served, '/invalid': { get: {} } };
        await writeFile(file, JSON.stringify({ ...rest, paths }));
        const { totals, problems } = await lint(file);
        expect(totals.ignored).toBe(0);
        const errors = problems.filter(({ severity }) => severity === 'error');
        const pointers = errors.map(({ location }) => location[0]!.pointer);
        expect(pointers).not.toEqual([]);
        expect(pointers.filter((pointer) => !pointer.startsWith('#/paths/~1invalid'))).toEqual([]);
      } finally {
        await rm(directory, { recursive: true });
      }
    },
  );
});

interface LintReport {
  readonly totals: { readonly ignored: number };
  readonly problems: readonly {
    readonly severity: string;
    readonly message: string;
    readonly location: readonly { readonly pointer: string }[];
  }[];
}

/** Lints an OpenAPI document with Redocly's recommended rules, offline. */
function lint(file: string): Promise<LintReport> {
  const cli = join(ROOT, 'node_modules/@redocly/cli/bin/cli.js');
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [cli, 'lint', '--extends=recommended', '--format=json', file],
      { env },
      // The exit code is non-zero if there are lint errors; the report contains them.
      (_error, stdout, stderr) => {
        try {
          resolve(JSON.parse(stdout) as LintReport);
        } catch {
          reject(new Error(`Redocly produced no report: ${stderr}`));
        }
      },
    );
  });
}

describe('GET /openapi.json and /openapi.yaml', () => {
  it('returns the same document as JSON and as YAML without a key', async () => {
    const json = await app.http().get('/openapi.json');
    expect(json.status).toBe(200);
    expect(json.type).toBe('application/json');
    const yaml = await app.http().get('/openapi.yaml');
    expect(yaml.status).toBe(200);
    expect(yaml.type).toMatch(/yaml/);
    const text = yaml.text ?? (yaml.body as Buffer).toString();
    expect(text).toMatch(/^openapi: 3\.0\.3$/m);
    expect(parseYaml(text)).toEqual(json.body);
  });

  it('returns the document as OpenAPI 3.1', async () => {
    const { openapi, paths } = (await app.http().get('/openapi-3.1.json')).body as OpenAPIObject;
    expect(openapi).toBe('3.1.1');
    expect(Object.keys(paths)).toEqual(Object.keys(document.paths));
    expect(paths['/categories']).toEqual(document.paths['/categories']);
  });

  it('converts what is nullable for OpenAPI 3.1', async () => {
    const kits = await startApp({ features: [KitsModule, ...FEATURES] });
    try {
      expect((await kits.http().get('/openapi.json')).text).toContain('"nullable":true');
      const { text } = await kits.http().get('/openapi-3.1.json');
      expect(text).not.toContain('"nullable"');
      expect(text).toContain('"null"');
      // The conversion has not changed what both versions are made of.
      const again = await startApp({ features: [KitsModule, ...FEATURES] });
      expect((await again.http().get('/openapi.json')).text).toBe(
        (await kits.http().get('/openapi.json')).text,
      );
      await again.stop();
    } finally {
      await kits.stop();
    }
  });

  it('returns 404 for versioned paths', async () => {
    for (const path of ['/v1/openapi.json', '/v1/openapi.yaml', '/v1/docs'])
      expect((await app.http().get(path)).status).toBe(404);
  });
});

/** Removes the server URLs from a document and its paths. */
function withoutServers({ servers: _servers, paths, ...rest }: OpenAPIObject): object {
  const items = Object.entries(paths).map(([path, { servers: _own, ...item }]) => [path, item]);
  return { ...rest, paths: Object.fromEntries(items) as object };
}

describe('Committed openapi.json', () => {
  it('matches the output of `npm run openapi`', async () => {
    const committed = await readFile(join(ROOT, 'openapi.json'), 'utf8');
    expect(committed).toBe(await renderDocument());
    expect(committed.endsWith('}\n')).toBe(true);
    const parsed = JSON.parse(committed) as OpenAPIObject;
    expect(parsed.servers).toEqual([{ url: '/v1', description: 'This deployment' }]);
    expect(withoutServers(parsed)).toEqual(withoutServers(document));
  });

  it('has sorted keys', async () => {
    const committed: unknown = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8'));
    const objects: object[] = [];
    const collect = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      if (!Array.isArray(value)) objects.push(value);
      Object.values(value).forEach(collect);
    };
    collect(committed);
    expect(objects.length).toBeGreaterThan(50);
    // JavaScript orders integer keys (the statuses) first, ascending, like `toSorted` does.
    for (const object of objects)
      expect(Object.keys(object)).toEqual(Object.keys(object).toSorted());
  });
});

describe('Swagger UI', () => {
  it('serves the OpenAPI document without a key', async () => {
    const page = await app.http().get('/docs').redirects(1);
    expect(page.status).toBe(200);
    expect(page.type).toBe('text/html');
    expect(page.text).toContain('<title>Petstore API</title>');
    const init = await app.http().get('/docs/swagger-ui-init.js');
    expect(init.status).toBe(200);
    expect(init.type).toMatch(/javascript/);
    expect(init.text).toContain('"operationId": "createCategory"');
    expect(init.text).toContain(PRODUCTION);
  });

  it('persists the entered key across reloads', async () => {
    const { text } = await app.http().get('/docs/swagger-ui-init.js');
    expect(text).toMatch(/"persistAuthorization": true/);
  });

  it('serves every file that the page references', async () => {
    const { text } = await app.http().get('/docs').redirects(1);
    const files = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => file!);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) {
      const { pathname } = new URL(file, `${app.url}/docs`);
      expect(pathname).toMatch(/^\/docs\//);
      expect([pathname, (await app.http().get(pathname)).status]).toEqual([pathname, 200]);
    }
  });
});

describe('GET /', () => {
  it('returns the name, the version and links that work behind the path prefix of a proxy', async () => {
    const { body } = await app.http().get('/');
    expect(body).toEqual({
      name: 'Petstore',
      version: document.info.version,
      links: {
        api: '/shop/v1',
        docs: '/shop/docs',
        openapi: '/shop/openapi.json',
        liveness: '/shop/livez',
        readiness: '/shop/readyz',
      },
    });
  });

  it('links to pages that exist', async () => {
    const local = await startApp();
    try {
      const { links } = (await local.http().get('/')).body as ServiceInfo;
      const { api, ...pages } = links;
      for (const path of [`${api}/categories`, ...Object.values(pages)]) {
        const response = await local.http().get(path).auth(local.key, { type: 'bearer' });
        expect([path, response.status]).toEqual([path, 200]);
      }
    } finally {
      await local.stop();
    }
  });
});

describe('two features with the same route', () => {
  it('are rejected at startup', async () => {
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
    const other = await createApp(loadConfig({}), { features, logger: false });
    await expect(other.init()).rejects.toThrow(/\/v1\/categories/);
  });
});
