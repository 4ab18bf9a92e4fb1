import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, main } from '../openapi-check.js';
import { getBuiltFile } from '../../../test/support/build.js';
import { type CommandResult, runCommand } from '../../../test/support/cli.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');

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
  it('accepts that errors are listed by status instead of by default', () => {
    const before = structuredClone(published);
    responses(before)['default'] = { description: 'Any error.' };
    expect(getDiffKinds((d) => delete responses(d)['default'], before)).toEqual(['other']);
  });

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

  it('allows every change of an operation that returned 501', async () => {
    const document: Document = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8'));
    const implemented = document.paths['/categories'].post;
    const stub = Object.values<Document>(document.paths)
      .flatMap((item) => Object.values<Document>(item))
      .find(({ description }) => description?.startsWith('Not implemented yet'));
    // Without the marker for experimental operations and the sunset date, which also allow changes.
    const documented = stub ?? {
      parameters: [{ name: 'petId', in: 'path', required: true, schema: { type: 'string' } }],
      responses: { 200: { description: 'Not implemented yet: the operation returns 501.' } },
    };
    for (const placeholder of [
      { responses: documented.responses },
      { responses: { 501: { description: 'Later.' } } },
    ]) {
      const before = structuredClone(published);
      before.paths['/colours/{id}'] = {
        get: { operationId: 'getColour', parameters: documented.parameters, ...placeholder },
      };
      const kinds = getDiffKinds((d) => {
        d.paths['/colours/{id}'].get = {
          ...implemented,
          parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
        };
      }, before);
      expect(kinds).toContain('allowed');
      expect(kinds).not.toContain('breaking');
    }
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
    const script = getBuiltFile('tools/openapi/openapi-check.js');
    const command = spawnSync(process.execPath, [script, '--against', file], { encoding: 'utf8' });
    expect({ code: command.status, stdout: command.stdout }).toEqual({ code, stdout });
  });
});

/** Returns a changed copy of a document. */
function edit(change: (document: Document) => void, document = published): Document {
  const copy = structuredClone(document);
  change(copy);
  return copy;
}

const addColours = (d: Document): void => {
  d.paths['/colours'] = { get: { ...d.paths['/categories'].get, operationId: 'listColours' } };
};
const removeDescription = (d: Document): void => {
  delete schemas(d).Category.properties.description;
};
const describeApi = (d: Document): void => {
  d.info.description = 'Pets.';
};

describe('npm run openapi:check in a git repository', () => {
  let repository: string;
  beforeEach(async () => {
    repository = await mkdtemp(join(tmpdir(), 'petstore-openapi-check-git-'));
    git('init', '--quiet', '--initial-branch=main');
    await commit(published);
  });
  afterEach(() => rm(repository, { recursive: true }));

  function git(...args: string[]): string {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
    const options = { cwd: repository, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync('git', [...identity, ...args], options);
    expect({ args, stderr: status === 0 ? '' : stderr }).toEqual({ args, stderr: '' });
    return stdout.trim();
  }

  /** Commits a document. */
  async function commit(document: Document): Promise<void> {
    await writeFile(join(repository, 'openapi.json'), JSON.stringify(document));
    git('add', '.');
    git('commit', '--quiet', '--allow-empty', '--message', 'Change the API');
  }

  function check(args: string[] = [], cwd = repository): Promise<CommandResult> {
    return runCommand(main, args, {}, cwd);
  }

  it('finds a breaking commit that is followed by a harmless one', async () => {
    git('checkout', '--quiet', '-b', 'feature');
    await commit(edit(removeDescription));
    await commit(edit((d) => (removeDescription(d), describeApi(d))));
    expect(await check()).toMatchObject({ code: 1, stdout: expect.stringMatching(/^breaking: /m) });
    expect((await check(['--against', 'HEAD^'])).code).toBe(0);
  });

  it('accepts an incompatible change of an operation that is not released', async () => {
    git('checkout', '--quiet', '-b', 'feature');
    const colours = edit(addColours);
    await commit(colours);
    await commit(edit((d) => (d.paths['/colours'].get.operationId = 'getColours'), colours));
    expect((await check(['--against', 'HEAD^'])).code).toBe(1);
    expect(await check()).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(', 0 of them'),
    });
  });

  it('ignores what was merged to the target branch in the meantime', async () => {
    git('checkout', '--quiet', '-b', 'feature');
    await commit(edit(describeApi));
    git('checkout', '--quiet', 'main');
    await commit(edit(addColours));
    git('checkout', '--quiet', 'feature');
    expect((await check()).code).toBe(0);
    expect((await check(['--against', 'main'])).code).toBe(1);
  });

  it('compares with the first parent of HEAD on the target branch', async () => {
    git('checkout', '--quiet', '-b', 'feature');
    await commit(edit(removeDescription));
    await commit(edit((d) => (removeDescription(d), describeApi(d))));
    git('checkout', '--quiet', 'main');
    git('merge', '--quiet', '--no-ff', '--message', 'Merge', 'feature');
    expect((await check()).code).toBe(1);
    await commit(edit((d) => (removeDescription(d), addColours(d))));
    expect((await check()).code).toBe(0);
  });

  it('prefers origin/main to main, and --target to both', async () => {
    git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    await commit(edit(removeDescription));
    await commit(edit((d) => (removeDescription(d), describeApi(d))));
    expect((await check()).code).toBe(1);
    git('branch', 'release', 'HEAD^');
    expect((await check(['--target', 'release'])).code).toBe(0);
  });

  it('rejects a target branch that does not exist', async () => {
    expect(await check(['--target', 'missing'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The target branch missing does not exist'),
    });
  });

  it('compares with the first parent of HEAD if there is no main', async () => {
    await commit(edit(removeDescription));
    git('branch', '--move', 'trunk');
    expect((await check()).code).toBe(1);
    git('checkout', '--quiet', '--detach');
    await commit(edit((d) => (removeDescription(d), describeApi(d))));
    expect((await check()).code).toBe(0);
  });

  it('fails in a shallow clone without the merge base', async () => {
    git('checkout', '--quiet', '-b', 'feature');
    await commit(edit(describeApi));
    git('checkout', '--quiet', 'main');
    await commit(edit(addColours));
    const clone = join(repository, 'clone');
    const options = ['--quiet', '--depth', '1', '--no-single-branch', '--branch', 'feature'];
    git('clone', ...options, `file://${repository}`, clone);
    expect(await check([], clone)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('git fetch --unshallow'),
    });
  });

  it('skips the check if there is no earlier commit', async () => {
    const skipped = { code: 0, stdout: '', stderr: expect.stringMatching(/^Skipped: .*earlier/) };
    expect(await check()).toMatchObject(skipped);
    await commit(edit(removeDescription));
    const clone = join(repository, 'clone');
    git('clone', '--quiet', '--depth', '1', `file://${repository}`, clone);
    expect(await check([], clone)).toMatchObject({
      ...skipped,
      stderr: expect.stringMatching(
        /^Skipped: .* in this shallow clone; run git fetch --unshallow/,
      ),
    });
  });
});
