import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { METHODS } from 'node:http';
import { basename, dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OpenAPIObject } from '@nestjs/swagger';
import { RESERVED_FOLDERS } from '../schematics/resource/reserved-folders.js';
import { requiresApiKey } from '../src/platform/auth/public.decorator.js';
import { ERROR_CODES } from '../src/platform/errors/error-codes.js';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest } from './support/http-client.js';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

/** Every route served without a key. None of them belongs to the published API. */
const PUBLIC_ROUTES = [
  'GET /docs',
  'GET /docs/',
  'GET /docs/LICENSE',
  'GET /docs/docs/swagger-ui-init.js',
  'GET /docs/index.html',
  'GET /docs/swagger-ui-init.js',
  'GET /livez',
  'GET /openapi.json',
  'GET /openapi.yaml',
  'GET /readyz',
];
/** The fallback route for requests that match no operation. It responds with 404 or 405. */
const CATCH_ALL = '/{*path}';

interface RouterLayer {
  readonly route?: {
    readonly path: string;
    readonly stack: readonly { readonly method: string; readonly handle: object }[];
  };
}

/** A source file. `path` is relative to src, with forward slashes. */
interface Source {
  readonly path: string;
  readonly text: string;
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly guarded: boolean;
}

/** Returns every route of the running application. */
function getRoutes({ app }: TestApp): Route[] {
  const { router } = app.getHttpAdapter().getInstance() as { router: { stack: RouterLayer[] } };
  return router.stack.flatMap(({ route }) =>
    route === undefined
      ? []
      : route.stack.map(({ method, handle }) => ({
          method: method.toUpperCase(),
          path: route.path,
          guarded: requiresApiKey(handle),
        })),
  );
}

const getFolder = (path: string): string => path.split('/')[0]!;
const getStem = (path: string): string => basename(path).split('.')[0]!;
/** Returns what a file imports: package names, and files by their path relative to src. */
const getImports = ({ path, text }: Source): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g)].map(([, specifier]) =>
    specifier!.startsWith('.') ? join(dirname(path), specifier!).split(sep).join('/') : specifier!,
  );

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
  let routes: Route[];
  beforeAll(async () => {
    app = await startApp();
    routes = getRoutes(app).filter(({ path }) => path !== CATCH_ALL);
  });
  afterAll(() => app.stop());

  /** Returns a concrete path that matches a route. */
  const toExamplePath = ({ path }: Route): string => path.replaceAll(/:\w+/g, '1');

  it('requires an API key for every route except PUBLIC_ROUTES', () => {
    const open = routes.filter(({ guarded }) => !guarded).map(formatRoute);
    expect(open.toSorted(compareStrings)).toEqual(PUBLIC_ROUTES.toSorted(compareStrings));
  });

  it('serves the public routes without a key', async () => {
    for (const name of PUBLIC_ROUTES) {
      const { status } = await sendRequest(app.url + name.replace('GET ', ''));
      // @nestjs/swagger serves every file of Swagger UI except this one.
      expect([name, status]).toEqual([name, name === 'GET /docs/LICENSE' ? 404 : 200]);
    }
  });

  it('returns 401 without a key for every method of a protected path', async () => {
    const paths = new Set(routes.filter(({ guarded }) => guarded).map(toExamplePath));
    expect([...paths]).toEqual(
      expect.arrayContaining(['/metrics', '/v1/categories', '/v1/pets/1', '/v1/store/orders']),
    );
    // CONNECT requests have an authority as target instead of a path.
    const methods = METHODS.filter((method) => method !== 'CONNECT');
    expect(methods.length).toBeGreaterThan(20);
    for (const path of paths) {
      for (const method of methods) {
        const response = await sendRequest(app.url + path, { method });
        expect([method, path, response.status]).toEqual([method, path, 401]);
        expect(response.headers['www-authenticate']).toBe('Bearer realm="petstore"');
      }
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
      expect([400, 401, 404]).toContain(status);
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
    // GET /metrics is for operators and not part of the published API.
    const guarded = routes
      .filter((route) => route.guarded)
      .map(formatRoute)
      .filter((name) => name !== 'GET /metrics');
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

  const featureFiles = (): Source[] =>
    sources.filter(({ path }) => path.includes('/') && !RESERVED_FOLDERS.has(getFolder(path)));

  it('has kebab-case file names', () => {
    const word = '[a-z0-9]+(-[a-z0-9]+)*';
    const name = new RegExp(`^(${word}/)*${word}(\\.${word})*\\.ts$`);
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
    expect(readers.map(({ path }) => path)).toEqual(['config.ts']);
  });

  it('uses the .js extension in relative imports', () => {
    const specifiers = sources.flatMap(({ path, text }) =>
      [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]*)['"]/g)].map(
        ([, specifier]) => `${path}: ${specifier}`,
      ),
    );
    expect(specifiers.length).toBeGreaterThan(50);
    expect(specifiers.filter((specifier) => !specifier.endsWith('.js'))).toEqual([]);
  });

  it('imports only existing files', () => {
    const files = new Set(sources.map(({ path }) => path.replace(/\.ts$/, '.js')));
    const missing = sources.flatMap((source) =>
      [...source.text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]*)['"]/g)]
        .map(([, specifier]) => join(dirname(source.path), specifier!).split(sep).join('/'))
        .filter((path) => !files.has(path)),
    );
    expect(missing).toEqual([]);
  });

  it('keeps feature files without subfolders, named after their folder or a controller in it', () => {
    const files = featureFiles().map(({ path }) => path);
    expect([...new Set(files.map(getFolder))]).toEqual(
      expect.arrayContaining(['categories', 'pets', 'store']),
    );
    const violations = files.filter(
      (path) =>
        path.split('/').length !== 2 ||
        (getStem(path) !== getFolder(path) &&
          !files.includes(`${getFolder(path)}/${getStem(path)}.controller.ts`)),
    );
    expect(violations).toEqual([]);
  });

  it('has no imports between features and no imports of foreign entities', () => {
    const files = featureFiles();
    expect(files.length).toBeGreaterThan(5);
    const features = new Set(files.map(({ path }) => getFolder(path)));
    const violations = files.flatMap((file) =>
      getImports(file)
        .filter(
          (target) =>
            getFolder(target) !== getFolder(file.path) &&
            (features.has(getFolder(target)) || target.endsWith('.entity.js')),
        )
        .map((target) => `${file.path} imports ${target}`),
    );
    expect(violations).toEqual([]);
  });
});

describe('Documentation', () => {
  it('links only to existing files and headings', async () => {
    const root = join(SRC, '..');
    const documents = [
      ...(await readdir(root)).filter((name) => name.endsWith('.md')),
      ...(await readdir(join(root, 'docs')))
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`),
    ];
    const broken: string[] = [];
    let links = 0;
    for (const document of documents) {
      const text = await readFile(join(root, document), 'utf8');
      for (const [, link] of text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
        links++;
        const [path, anchor] = link!.split('#');
        const target = path === '' ? join(root, document) : join(root, dirname(document), path!);
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

describe('README', () => {
  it('lists the error codes with the statuses and descriptions of ERROR_CODES', async () => {
    const readme = await readFile(join(SRC, '../README.md'), 'utf8');
    const shown = [...readme.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \| (.*) \|$/gm)];
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
