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

/** Everything that is served without a key. Nothing of the published interface is. */
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
/** Takes what no other route took: it answers 404 or 405, and asks for the key where a route would. */
const CATCH_ALL = '/{*path}';

interface RouterLayer {
  readonly route?: {
    readonly path: string;
    readonly stack: readonly { readonly method: string; readonly handle: object }[];
  };
}

/** A file: its path from src, with slashes, and its text. */
interface Source {
  readonly path: string;
  readonly text: string;
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly guarded: boolean;
}

/** Every route of the running application. */
function routesOf({ app }: TestApp): Route[] {
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

const folderOf = (path: string): string => path.split('/')[0]!;
const stemOf = (path: string): string => basename(path).split('.')[0]!;
/** What a file imports: packages, and files by their path from src. */
const importsOf = ({ path, text }: Source): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g)].map(([, specifier]) =>
    specifier!.startsWith('.') ? join(dirname(path), specifier!).split(sep).join('/') : specifier!,
  );

/** The methods of a path of the document; another version has its servers beside them. */
const methodsOf = (item: object): string[] =>
  Object.keys(item).filter((key) => METHODS.includes(key.toUpperCase()));

const nameOf = ({ method, path }: Route): string => `${method} ${path}`;
const byName = (a: string, b: string): number => (a < b ? -1 : 1);

/** The anchors of a document, as GitHub makes them. */
const anchorsOf = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );

describe('The routes', () => {
  let app: TestApp;
  let routes: Route[];
  beforeAll(async () => {
    app = await startApp();
    routes = routesOf(app).filter(({ path }) => path !== CATCH_ALL);
  });
  afterAll(() => app.stop());

  /** A path that a route takes. */
  const example = ({ path }: Route): string => path.replaceAll(/:\w+/g, '1');

  it('that are public are those of the list', () => {
    const open = routes.filter(({ guarded }) => !guarded).map(nameOf);
    expect(open.toSorted(byName)).toEqual(PUBLIC_ROUTES.toSorted(byName));
  });

  it('that are public answer without a key', async () => {
    for (const name of PUBLIC_ROUTES) {
      const { status } = await sendRequest(app.url + name.replace('GET ', ''));
      // Swagger UI's module serves every file beside its page but this one.
      expect([name, status]).toEqual([name, name === 'GET /docs/LICENSE' ? 404 : 200]);
    }
  });

  it('that are not public answer 401 to every method without a key', async () => {
    const paths = new Set(routes.filter(({ guarded }) => guarded).map(example));
    expect([...paths]).toEqual(
      expect.arrayContaining(['/metrics', '/v1/categories', '/v1/pets/1', '/v1/store/orders']),
    );
    // CONNECT asks for a tunnel, not for a path.
    const methods = METHODS.filter((method) => method !== 'CONNECT');
    expect(methods.length).toBeGreaterThan(20);
    for (const path of paths) {
      for (const method of methods) {
        const answer = await sendRequest(app.url + path, { method });
        expect([method, path, answer.status]).toEqual([method, path, 401]);
        expect(answer.headers['www-authenticate']).toBe('Bearer realm="petstore"');
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
  ])('give nothing away to a path that is written in another way: %s', async (path) => {
    for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS']) {
      const { status } = await sendRequest(app.url + path, { method });
      expect([400, 401, 404]).toContain(status);
    }
  });

  it('that are not public are the operations of the document', async () => {
    const { body } = await app.http().get('/openapi.json');
    const documented = Object.entries((body as OpenAPIObject).paths).flatMap(([path, item]) =>
      methodsOf(item).map((method) => {
        const address = path.replaceAll(/\{(\w+)\}/g, ':$1');
        return `${method.toUpperCase()} ${/^\/v\d/.test(path) ? '' : '/v1'}${address}`;
      }),
    );
    // The figures are for whoever operates the service.
    const guarded = routes
      .filter((route) => route.guarded)
      .map(nameOf)
      .filter((name) => name !== 'GET /metrics');
    expect(guarded.length).toBeGreaterThan(0);
    expect(documented.toSorted(byName)).toEqual(guarded.toSorted(byName));
  });

  it('have each an id, a summary, a tag and their error responses in the document', async () => {
    const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const tags = document.tags!.map(({ name }) => name);
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      methodsOf(item).map((method) => ({
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

describe('The sources', () => {
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
    if (sources.length < 30) throw new Error(`Only ${sources.length} files were found in ${SRC}`);
  });

  const featureFiles = (): Source[] =>
    sources.filter(({ path }) => path.includes('/') && !RESERVED_FOLDERS.has(folderOf(path)));
  it('are named in kebab case', () => {
    const word = '[a-z0-9]+(-[a-z0-9]+)*';
    const name = new RegExp(`^(${word}/)*${word}(\\.${word})*\\.ts$`);
    expect(sources.map(({ path }) => path).filter((path) => !name.test(path))).toEqual([]);
  });

  it('have no barrels, and no folders that say nothing', () => {
    const banned = /(^|\/)(index\.ts$|(common|shared|utils|interfaces|helpers)\/)/;
    expect(sources.map(({ path }) => path).filter((path) => banned.test(path))).toEqual([]);
  });

  it('read the environment in config.ts alone', () => {
    const readers = sources.filter(({ text }) =>
      /\bprocess\s*(\.|\?\.|\[\s*['"])\s*env\b|\benv\b[^;]*from 'node:process'/.test(text),
    );
    expect(readers.map(({ path }) => path)).toEqual(['config.ts']);
  });

  it('import each other with the ending .js', () => {
    const specifiers = sources.flatMap(({ path, text }) =>
      [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]*)['"]/g)].map(
        ([, specifier]) => `${path}: ${specifier}`,
      ),
    );
    expect(specifiers.length).toBeGreaterThan(50);
    expect(specifiers.filter((specifier) => !specifier.endsWith('.js'))).toEqual([]);
  });

  it('import files that exist', () => {
    const files = new Set(sources.map(({ path }) => path.replace(/\.ts$/, '.js')));
    const missing = sources.flatMap((source) =>
      [...source.text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]*)['"]/g)]
        .map(([, specifier]) => join(dirname(source.path), specifier!).split(sep).join('/'))
        .filter((path) => !files.has(path)),
    );
    expect(missing).toEqual([]);
  });

  it('of a feature lie flat in its folder and share its stem, or that of a controller beside them', () => {
    const files = featureFiles().map(({ path }) => path);
    expect([...new Set(files.map(folderOf))]).toEqual(
      expect.arrayContaining(['categories', 'pets', 'store']),
    );
    const strays = files.filter(
      (path) =>
        path.split('/').length !== 2 ||
        (stemOf(path) !== folderOf(path) &&
          !files.includes(`${folderOf(path)}/${stemOf(path)}.controller.ts`)),
    );
    expect(strays).toEqual([]);
  });

  it('of a feature import nothing of another feature, and no entity that is not their own', () => {
    const files = featureFiles();
    expect(files.length).toBeGreaterThan(5);
    const features = new Set(files.map(({ path }) => folderOf(path)));
    const foreign = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (target) =>
            folderOf(target) !== folderOf(file.path) &&
            (features.has(folderOf(target)) || target.endsWith('.entity.js')),
        )
        .map((target) => `${file.path} imports ${target}`),
    );
    expect(foreign).toEqual([]);
  });
});

describe('The documents', () => {
  it('link to files and headings that exist', async () => {
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
          (anchor === undefined || anchorsOf(await readFile(target, 'utf8')).includes(anchor));
        if (!found) broken.push(`${document}: ${link}`);
      }
    }
    expect(links).toBeGreaterThan(30);
    expect(broken).toEqual([]);
  });
});

describe('The README', () => {
  it('shows the table of error codes as the code has it', async () => {
    const readme = await readFile(join(SRC, '../README.md'), 'utf8');
    const shown = [...readme.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \| (.*) \|$/gm)];
    expect(shown.map(([, code, status, when]) => [code, Number(status), when])).toEqual(
      Object.entries(ERROR_CODES).map(([code, { status, description }]) => [
        code,
        status,
        description,
      ]),
    );
  });
});
