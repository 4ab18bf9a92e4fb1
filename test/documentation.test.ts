import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { METHODS } from 'node:http';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Controller, Get } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { createApp } from '../src/app.js';
import { FEATURES } from '../src/features.js';
import { loadConfig } from '../src/platform/config/config.js';
import { ERROR_CODES } from '../src/platform/errors/error-codes.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest } from './support/http-client.js';
import { getProtectedRoutes, getRoutes, PUBLIC_PATHS, type Route } from './support/routes.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SRC = join(ROOT, 'src');

/** A source file. `path` is relative to src, with forward slashes. */
interface Source {
  readonly path: string;
  readonly text: string;
}

/** Returns the methods of a path item, without other keys such as `servers`. */
const getMethods = (item: object): string[] =>
  Object.keys(item).filter((key) => METHODS.includes(key.toUpperCase()));

const formatRoute = ({ method, path }: Route): string => `${method} ${path}`;
const compareStrings = (a: string, b: string): number => (a < b ? -1 : 1);

/** Returns the heading anchors of a Markdown file, as GitHub generates them. */
const getAnchors = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );

describe('Router', () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp();
  });
  afterAll(() => app.stop());

  it('rejects two features with the same route at startup', async () => {
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

  it('serves the public routes without a key', async () => {
    const routes = getRoutes(app).filter(({ path }) => PUBLIC_PATHS.has(path));
    expect(new Set(routes.map(({ path }) => path))).toEqual(PUBLIC_PATHS);
    for (const { method, path } of routes) {
      const { status } = await sendRequest(app.url + path, { method });
      // @nestjs/swagger serves every file of Swagger UI except this one.
      expect([path, status]).toEqual([path, path === '/docs/LICENSE' ? 404 : 200]);
    }
  });

  it.each([
    '/v1/categories/',
    '/V1/Categories',
    '/v1/%63ategories',
    '//v1/categories',
    '/v1//categories',
    '/v1/categories/../categories',
    '/v1/categories;a=b',
    '/docs/../v1/categories',
    '/docs/%2e%2e/v1/categories',
    '/v1/categories%00',
    '/v1/pets/1/',
    '/v1/pets/%2e',
  ])('denies access without a key to a variant spelling of a path: %s', async (path) => {
    for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS']) {
      const { status } = await sendRequest(app.url + path, { method });
      expect([400, 401, 404, 405]).toContain(status);
    }
  });

  it('serves exactly the operations of the OpenAPI document with a key', async () => {
    const { body } = await app.http().get('/openapi.json');
    const documented = Object.entries((body as OpenAPIObject).paths).flatMap(([path, item]) =>
      getMethods(item).map((method) => {
        const address = path.replaceAll(/\{(\w+)\}/g, ':$1');
        return `${method.toUpperCase()} ${/^\/v\d/.test(path) ? '' : '/v1'}${address}`;
      }),
    );
    const guarded = getProtectedRoutes(app).map(formatRoute);
    expect(guarded.length).toBeGreaterThan(0);
    expect(documented.toSorted(compareStrings)).toEqual(guarded.toSorted(compareStrings));
  });

  it('documents an operation id, a summary, a tag and the error responses of every operation', async () => {
    const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const tags = document.tags!.map(({ name }) => name);
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      getMethods(item).map((method) => ({
        name: `${method} ${path}`,
        operation: (item as Record<string, NonNullable<typeof item.get>>)[method]!,
      })),
    );
    expect(operations.length).toBeGreaterThan(0);
    const error = {
      description: expect.stringMatching(/\S/),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    };
    for (const { name, operation } of operations) {
      expect({ name, ...operation }).toMatchObject({
        name,
        operationId: expect.stringMatching(/^[a-z][A-Za-z]+(V\d+)?$/),
        summary: expect.stringMatching(/^[A-Z].*[^.]$/),
        tags: [expect.any(String)],
        responses: {
          '401': error,
          default: error,
          ...(operation.requestBody === undefined ? {} : { '400': error }),
        },
      });
      expect(tags).toContain(operation.tags![0]);
    }
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('Source tree', () => {
  let sources: Source[];
  beforeAll(async () => {
    const entries = await readdir(SRC, { recursive: true, withFileTypes: true });
    sources = await Promise.all(
      entries
        .filter((entry) => entry.isFile())
        .map(async ({ parentPath, name }) => {
          const file = join(parentPath, name);
          const path = relative(SRC, file).split(sep).join('/');
          return { path, text: await readFile(file, 'utf8') };
        }),
    );
    if (sources.length < 30) throw new Error(`Found only ${sources.length} files in ${SRC}`);
  });

  it('has kebab-case file names', () => {
    const word = '[a-z0-9]+(-[a-z0-9]+)*';
    const name = new RegExp(`^(${word}/)*${word}(\\.${word})*\\.(ts|css)$`);
    expect(sources.map(({ path }) => path).filter((path) => !name.test(path))).toEqual([]);
  });

  it('has no barrel files or catch-all folders', () => {
    const banned = /(^|\/)(index\.ts$|(common|shared|utils|interfaces|helpers)\/)/;
    expect(sources.map(({ path }) => path).filter((path) => banned.test(path))).toEqual([]);
  });

  it('reads the environment only in config.ts', () => {
    const readers = sources.filter(({ text }) =>
      /\bprocess\s*(\.|\?\.|\[\s*['"])\s*env\b|\benv\b[^;]*from 'node:process'/.test(text),
    );
    expect(readers.map(({ path }) => path)).toEqual(['platform/config/config.ts']);
  });
});

describe('Documentation', () => {
  it('links only to existing files and headings', async () => {
    const documents = [
      ...(await readdir(ROOT)).filter((name) => name.endsWith('.md')),
      ...(await readdir(join(ROOT, 'docs'), { recursive: true }))
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`),
    ];
    const broken: string[] = [];
    let links = 0;
    for (const document of documents) {
      const text = await readFile(join(ROOT, document), 'utf8');
      for (const [, link] of text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
        links++;
        const [path, anchor] = link!.split('#');
        const target = path === '' ? join(ROOT, document) : join(ROOT, dirname(document), path!);
        const found =
          existsSync(target) &&
          (anchor === undefined || getAnchors(await readFile(target, 'utf8')).includes(anchor));
        if (!found) broken.push(`${document}: ${link}`);
      }
    }
    expect(links).toBeGreaterThan(30);
    expect(broken).toEqual([]);
  });
});

describe('docs/errors.md', () => {
  it('lists the error codes with the statuses and descriptions of ERROR_CODES', async () => {
    const page = await readFile(join(ROOT, 'docs/errors.md'), 'utf8');
    const shown = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \| (.*) \|$/gm)];
    expect(
      shown.map(([, code, status, description]) => [code, Number(status), description]),
    ).toEqual(
      Object.entries(ERROR_CODES).map(([code, { status, description }]) => [
        code,
        status,
        description,
      ]),
    );
  });
});
