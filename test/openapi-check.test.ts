import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, main } from '../conformance/openapi-check.js';
import { getBuiltFile } from './support/build.js';
import { type CommandResult, runCommand } from './support/cli.js';

const ROOT = join(import.meta.dirname, '..');

/* oxlint-disable-next-line typescript/no-explicit-any -- the tests change arbitrary parts of a document */
type Document = any;

/** openapi.json without the operations of other modules. */
let published: Document;
beforeAll(async () => {
  const document: Document = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8'));
  published = { ...document, paths: { '/categories': document.paths['/categories'] } };
});

const schemas = (document: Document): Document => document.components.schemas;
const responses = (document: Document): Document => document.paths['/categories'].post.responses;

/** Returns the distinct kinds of all differences that a change causes. */
function getDiffKinds(change: (document: Document) => void, before = published): string[] {
  const after = structuredClone(before);
  change(after);
  return [...new Set(compare(before, after).map(({ kind }) => kind))];
}

/** Returns the kinds of differences when an operation with these properties is removed. */
function getRemovalKinds(properties: object): string[] {
  const before = structuredClone(published);
  before.paths['/colours'] = { get: { ...before.paths['/categories'].get, ...properties } };
  return getDiffKinds((d) => delete d.paths['/colours'], before);
}

describe('compare', () => {
  it.each<[string, (document: Document) => void]>([
    ['removes an operation', (d) => delete d.paths['/categories'].post],
    ['removes a response property', (d) => delete schemas(d).Category.properties.description],
    ['removes a request property', (d) => delete schemas(d).NewCategory.properties.description],
    ['makes a response property optional', (d) => schemas(d).Category.required.pop()],
    [
      'requires another request property',
      (d) => schemas(d).NewCategory.required.push('description'),
    ],
    [
      'requires a parameter',
      (d) =>
        (d.paths['/categories'].get.parameters = [
          { name: 'page', in: 'query', required: true, schema: { type: 'integer' } },
        ]),
    ],
    ['lowers a maximum length', (d) => (schemas(d).NewCategory.properties.name.maxLength = 50)],
    ['narrows a pattern', (d) => (schemas(d).NewCategory.properties.name.pattern = '^[a-z]+$')],
    ['adds an enum', (d) => (schemas(d).NewCategory.properties.name.enum = ['dog'])],
    [
      'changes the type of a response property',
      (d) => (schemas(d).Category.properties.id.type = 'string'),
    ],
    [
      'changes the type of a request property',
      (d) => (schemas(d).NewCategory.properties.name.type = 'number'),
    ],
    [
      'changes a response status',
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
    [
      'changes the authentication scheme',
      (d) => (d.components.securitySchemes.apiKey.scheme = 'basic'),
    ],
    ['changes the security requirement', (d) => (d.security = [{ other: [] }])],
  ])('treats a change as breaking if it %s', (_label, change) => {
    expect(getDiffKinds(change)).toContain('breaking');
  });

  it.each<[string, (document: Document) => void]>([
    ['adds an operation', (d) => (d.paths['/colours'] = { get: d.paths['/categories'].get })],
    [
      'adds a response property',
      (d) => (schemas(d).Category.properties.colour = { type: 'string' }),
    ],
    [
      'adds a property named type',
      (d) => (schemas(d).Category.properties.type = { type: 'string' }),
    ],
    [
      'adds an optional request property',
      (d) => (schemas(d).NewCategory.properties.colour = { type: 'string' }),
    ],
    ['raises a maximum length', (d) => (schemas(d).NewCategory.properties.name.maxLength = 200)],
    ['adds a response status', (d) => (responses(d)['409'] = { description: 'Already exists.' })],
    ['changes the description', (d) => (d.info.description = 'Pets.')],
    [
      'changes the description of the security scheme',
      (d) => (d.components.securitySchemes.apiKey.description = 'A key.'),
    ],
    ['deprecates an operation', (d) => (d.paths['/categories'].get.deprecated = true)],
  ])('treats a change as compatible if it %s', (_label, change) => {
    expect(getDiffKinds(change)).toEqual(['other']);
  });

  it('allows breaking changes of experimental operations and after the sunset date', () => {
    expect(getRemovalKinds({ 'x-stability': 'experimental' })).toEqual(['allowed']);
    const deprecated = { deprecated: true, 'x-deprecated-since': '2026-11-01' };
    expect(getRemovalKinds({ ...deprecated, 'x-sunset': '2999-11-01' })).toEqual(['breaking']);
    expect(getRemovalKinds({ ...deprecated, 'x-sunset': '2026-11-02' })).toEqual(['allowed']);
  });

  it('reports nothing for identical documents', () => {
    expect(compare(published, structuredClone(published))).toEqual([]);
  });
});

describe('npm run openapi:check', () => {
  let directory: string;
  let file: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-openapi-check-'));
    file = join(directory, 'older.json');
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** Compares openapi.json with a modified copy, the older document. */
  async function compareWithOlder(change: (older: Document) => void): Promise<CommandResult> {
    const older = structuredClone(published);
    change(older);
    await writeFile(file, JSON.stringify(older));
    return runCommand(main, ['--against', file], {});
  }

  it('lists breaking changes and exits with 1', async () => {
    const { code, stdout } = await compareWithOlder(
      (older) => (schemas(older).Category.properties.id.type = 'string'),
    );
    expect(code).toBe(1);
    const change = /^breaking: .*\/categories > get .* id > type: "string" became "integer"$/m;
    expect(stdout).toMatch(change);
  });

  it('allows breaking changes in a new major version', async () => {
    const { code, stdout } = await compareWithOlder((older) => {
      older.info.version = '0.9.0';
      schemas(older).Category.properties.id.type = 'string';
    });
    expect(stdout).toMatch(/^breaking: /m);
    expect(code).toBe(0);
  });

  it('exits with 0 for compatible changes', async () => {
    const { code, stdout } = await compareWithOlder((older) => delete older.paths['/categories']);
    expect(stdout).toContain('paths > /categories > get was added');
    expect(code).toBe(0);
  });

  it('rejects a name that is neither a file nor a git ref', async () => {
    const { code, stderr } = await runCommand(main, ['--against', 'missing.json'], {});
    expect(stderr).toContain('missing.json is neither a file nor a git ref');
    expect(code).toBe(1);
  });

  it('prints and exits the same in a process of its own', async () => {
    const { code, stdout } = await compareWithOlder(
      (older) => (schemas(older).Category.properties.id.type = 'string'),
    );
    const script = getBuiltFile('conformance/openapi-check.js');
    const command = spawnSync(process.execPath, [script, '--against', file], { encoding: 'utf8' });
    expect({ code: command.status, stdout: command.stdout }).toEqual({ code, stdout });
  }, 60_000);
});
