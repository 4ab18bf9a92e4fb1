import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare } from '../conformance/openapi-check.js';
import { buildOnce } from './support/build.js';

const ROOT = join(import.meta.dirname, '..');

/* oxlint-disable-next-line typescript/no-explicit-any -- any part of a document may be changed */
type Document = any;

let published: Document;
beforeAll(async () => {
  published = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8'));
});

const schemas = (document: Document): Document => document.components.schemas;
const responses = (document: Document): Document => document.paths['/categories'].post.responses;

/** What the check says of a change: the kinds of all differences that it finds. */
function kindsOf(change: (document: Document) => void, before = published): string[] {
  const after = structuredClone(before);
  change(after);
  return [...new Set(compare(before, after).map(({ kind }) => kind))];
}

/** What the check says where an operation is removed that has these marks. */
function kindsOfRemoval(marks: object): string[] {
  const before = structuredClone(published);
  before.paths['/colours'] = { get: { ...before.paths['/categories'].get, ...marks } };
  return kindsOf((d) => delete d.paths['/colours'], before);
}

describe('A change of the document', () => {
  it.each<[string, (document: Document) => void]>([
    ['removes an operation', (d) => delete d.paths['/categories'].post],
    ['removes a property of an answer', (d) => delete schemas(d).Category.properties.description],
    ['removes a property of a body', (d) => delete schemas(d).NewCategory.properties.description],
    ['may leave a property out', (d) => schemas(d).Category.required.pop()],
    ['asks for a property', (d) => schemas(d).NewCategory.required.push('description')],
    [
      'asks for a parameter',
      (d) =>
        (d.paths['/categories'].get.parameters = [
          { name: 'page', in: 'query', required: true, schema: { type: 'integer' } },
        ]),
    ],
    ['narrows a limit', (d) => (schemas(d).NewCategory.properties.name.maxLength = 50)],
    ['narrows a pattern', (d) => (schemas(d).NewCategory.properties.name.pattern = '^[a-z]+$')],
    ['lists the values', (d) => (schemas(d).NewCategory.properties.name.enum = ['dog'])],
    ['changes the type of an answer', (d) => (schemas(d).Category.properties.id.type = 'string')],
    ['changes the type of a body', (d) => (schemas(d).NewCategory.properties.name.type = 'number')],
    [
      'changes a status',
      (d) => {
        responses(d)['200'] = responses(d)['201'];
        delete responses(d)['201'];
      },
    ],
    [
      'changes a content type',
      (d) => {
        const { content } = responses(d)['201'];
        content['text/plain'] = content['application/json'];
        delete content['application/json'];
      },
    ],
    ['renames an operation', (d) => (d.paths['/categories'].get.operationId = 'getCategories')],
    ['wants another kind of key', (d) => (d.components.securitySchemes.apiKey.scheme = 'basic')],
    ['changes who may call', (d) => (d.security = [{ other: [] }])],
  ])('breaks clients where it %s', (_what, change) => {
    expect(kindsOf(change)).toContain('breaking');
  });

  it.each<[string, (document: Document) => void]>([
    ['adds an operation', (d) => (d.paths['/colours'] = { get: d.paths['/store/orders'].get })],
    ['adds a property', (d) => (schemas(d).Category.properties.colour = { type: 'string' })],
    [
      'adds a property called type',
      (d) => (schemas(d).Category.properties.type = { type: 'string' }),
    ],
    [
      'takes a property more',
      (d) => (schemas(d).NewCategory.properties.colour = { type: 'string' }),
    ],
    ['widens a limit', (d) => (schemas(d).NewCategory.properties.name.maxLength = 200)],
    ['adds an answer', (d) => (responses(d)['409'] = { description: 'It is there already.' })],
    ['says it in other words', (d) => (d.info.description = 'Pets.')],
    [
      'describes the key in other words',
      (d) => (d.components.securitySchemes.apiKey.description = 'A key.'),
    ],
    ['deprecates an operation', (d) => (d.paths['/categories'].get.deprecated = true)],
  ])('is named, and breaks nobody, where it %s', (_what, change) => {
    expect(kindsOf(change)).toEqual(['other']);
  });

  it('may break an operation that says it may still change, or whose sunset has passed', () => {
    expect(kindsOfRemoval({ 'x-stability': 'experimental' })).toEqual(['allowed']);
    const deprecated = { deprecated: true, 'x-deprecated-since': '2026-11-01' };
    expect(kindsOfRemoval({ ...deprecated, 'x-sunset': '2999-11-01' })).toEqual(['breaking']);
    expect(kindsOfRemoval({ ...deprecated, 'x-sunset': '2026-11-02' })).toEqual(['allowed']);
  });

  it('is nothing where nothing has changed', () => {
    expect(compare(published, structuredClone(published))).toEqual([]);
  });
});

describe('The command', () => {
  let directory: string;
  beforeAll(async () => {
    await buildOnce();
    directory = await mkdtemp(join(tmpdir(), 'petstore-openapi-check-'));
  }, 120_000);
  afterAll(() => rm(directory, { recursive: true }));

  /** Compares openapi.json with an older document. */
  async function check(change: (older: Document) => void): Promise<{ code: number; out: string }> {
    const script = join(await buildOnce(), 'conformance/openapi-check.js');
    const file = join(directory, 'older.json');
    const older = structuredClone(published);
    change(older);
    await writeFile(file, JSON.stringify(older));
    return new Promise((resolve) => {
      execFile(process.execPath, [script, '--against', file], { cwd: ROOT }, (error, out) =>
        resolve({ code: Number(error?.code ?? 0), out }),
      );
    });
  }

  it('names what breaks clients, and fails', async () => {
    const { code, out } = await check(
      (older) => (schemas(older).Category.properties.id.type = 'string'),
    );
    expect(code).toBe(1);
    expect(out).toMatch(
      /^breaking: .*\/categories > get .* id > type: "string" became "integer"$/m,
    );
  });

  it('lets a new major version break', async () => {
    const { code, out } = await check((older) => {
      older.info.version = '0.9.0';
      schemas(older).Category.properties.id.type = 'string';
    });
    expect(out).toMatch(/^breaking: /m);
    expect(code).toBe(0);
  });

  it('passes what breaks nobody', async () => {
    const { code, out } = await check((older) => delete older.paths['/store/orders']);
    expect(out).toContain('paths > /store/orders > get was added');
    expect(code).toBe(0);
  });
});
