import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CommandResult, runCommand } from '../../../test/platform/support/cli.js';
import { compare, main } from '../openapi-check.js';
import { type Document, edit, readPublished } from './documents.js';

let published: Document;
beforeAll(async () => {
  published = edit(await readPublished(), { 'info version': '1.0.0' });
});

const GET = 'paths /categories get';
const POST = 'paths /categories post';
const CATEGORY = 'components schemas Category';
const NEW_CATEGORY = 'components schemas NewCategory';
const KEY = 'components securitySchemes apiKey';
const TEXT = { type: 'string' };

/** Returns the distinct kinds of all differences that changes cause. */
function getDiffKinds(changes: Record<string, unknown>, before = published): string[] {
  return [...new Set(compare(before, edit(before, changes)).map(({ kind }) => kind))];
}

/** Returns the kinds of differences when an operation with these properties is removed. */
function getRemovalKinds(properties: object): string[] {
  const operation = { ...published.paths['/categories'].get, ...properties };
  return getDiffKinds(
    { 'paths /colours': undefined },
    edit(published, { 'paths /colours get': operation }),
  );
}

describe('compare', () => {
  it.each<[place: string, value: unknown]>([
    [POST, undefined],
    [`${GET} operationId`, 'getCategories'],
    [`${GET} parameters 1`, { name: 'page', in: 'query', required: true, schema: TEXT }],
    [`${POST} responses 201`, undefined],
    [`${POST} responses 201 content application/json`, undefined],
    [`${CATEGORY} properties description`, undefined],
    [`${CATEGORY} properties id type`, 'string'],
    [`${CATEGORY} required`, ['id']],
    [`${NEW_CATEGORY} properties description`, undefined],
    [`${NEW_CATEGORY} properties name type`, 'number'],
    [`${NEW_CATEGORY} properties name maxLength`, 50],
    [`${NEW_CATEGORY} properties name pattern`, '^[a-z]+$'],
    [`${NEW_CATEGORY} properties name enum`, ['dog']],
    [`${NEW_CATEGORY} required`, ['name', 'description']],
    [`${KEY} scheme`, 'basic'],
    ['security', [{ other: [] }]],
  ])('treats another value of %s as breaking: %j', (place, value) => {
    expect(getDiffKinds({ [place]: value })).toContain('breaking');
  });

  it.each<[place: string, value: unknown]>([
    ['paths /colours get', { responses: {} }],
    ['info description', 'Pets.'],
    [`${GET} deprecated`, true],
    [`${POST} responses 409`, { description: 'Already exists.' }],
    [`${CATEGORY} properties colour`, TEXT],
    [`${CATEGORY} properties type`, TEXT],
    ['components schemas Error properties message pattern', '^[ -~]+$'],
    [`${NEW_CATEGORY} properties colour`, TEXT],
    [`${NEW_CATEGORY} properties name maxLength`, 200],
    [`${KEY} description`, 'A key.'],
    // Texts with NUL have never been valid.
    [`${NEW_CATEGORY} properties name pattern`, String.raw`^[^\x00]*$`],
  ])('treats another value of %s as compatible: %j', (place, value) => {
    expect(getDiffKinds({ [place]: value })).toEqual(['other']);
  });

  it('accepts that errors are listed by status instead of by default', () => {
    const place = `${POST} responses default`;
    const before = edit(published, { [place]: { description: 'Any error.' } });
    expect(getDiffKinds({ [place]: undefined }, before)).toEqual(['other']);
  });

  it('accepts the patterns that earlier versions did not publish', () => {
    const before = edit(published, {
      [`${NEW_CATEGORY} properties name pattern`]: String.raw`[^\s\u0085]`,
      [`${NEW_CATEGORY} properties description pattern`]: undefined,
      [`${POST} parameters 0 schema pattern`]: undefined,
    });
    expect(new Set(compare(before, published).map(({ kind }) => kind))).toEqual(new Set(['other']));
  });

  it('accepts the lengths that earlier versions did not publish, and no others', () => {
    const born = `${NEW_CATEGORY} properties born`;
    const key = `${POST} parameters 0 schema maxLength`;
    const etag = `${GET} parameters 0 schema maxLength`;
    const date = { type: 'string', format: 'date' };
    const before = edit(published, { [born]: date, [key]: undefined, [etag]: undefined });
    const getKinds = (length: number): string[] =>
      [{ [`${born} maxLength`]: length }, { [key]: length }, { [etag]: length }].flatMap(
        (changes) => getDiffKinds(changes, before),
      );
    expect([10, 512, 8192].map(getKinds)).toEqual([
      ['other', 'breaking', 'breaking'],
      ['breaking', 'other', 'breaking'],
      ['breaking', 'breaking', 'other'],
    ]);
  });

  it('allows breaking changes of experimental operations and after the sunset date', () => {
    expect(getRemovalKinds({ 'x-stability': 'experimental' })).toEqual(['allowed']);
    expect(getRemovalKinds({ deprecated: true, 'x-sunset': '2999-11-01' })).toEqual(['breaking']);
    expect(getRemovalKinds({ deprecated: true, 'x-sunset': '2026-11-02' })).toEqual(['allowed']);
  });

  it.each([
    { 200: { description: 'Not implemented yet: the operation returns 501.' } },
    { 501: { description: 'Later.' }, default: { description: 'Any error.' } },
  ])('allows every change of an operation that returned 501: %j', (responses) => {
    const place = 'paths /colours/{id} get';
    const placeholder = { operationId: 'getColour', responses };
    const before = edit(published, { [place]: placeholder });
    const kinds = getDiffKinds({ [place]: published.paths['/categories'].post }, before);
    expect(kinds).toContain('allowed');
    expect(kinds).not.toContain('breaking');
  });

  it('reports nothing for identical documents', () => {
    expect(compare(published, structuredClone(published))).toEqual([]);
  });
});

describe('npm run openapi:check -- --against', () => {
  const ID_TYPE = `${CATEGORY} properties id type`;
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-openapi-check-'));
    await writeFile(join(directory, 'openapi.json'), JSON.stringify(published));
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** Compares openapi.json with a changed copy, the older document. */
  async function compareWithOlder(changes: Record<string, unknown>): Promise<CommandResult> {
    const file = join(directory, 'older.json');
    await writeFile(file, JSON.stringify(edit(published, changes)));
    return runCommand(main, ['--against', file], {}, directory);
  }

  it('lists breaking changes and exits with 1', async () => {
    const { code, stdout } = await compareWithOlder({ [ID_TYPE]: 'string' });
    const change = /^breaking: .*\/categories > get .* id > type: "string" became "integer"$/m;
    expect(stdout).toMatch(change);
    expect(code).toBe(1);
  });

  it('allows breaking changes in a new major version', async () => {
    const changes = { [ID_TYPE]: 'string', 'info version': '0.9.0' };
    const { code, stdout } = await compareWithOlder(changes);
    expect(stdout).toMatch(/^breaking: /m);
    expect(code).toBe(0);
  });

  it('exits with 0 for compatible changes', async () => {
    const { code, stdout } = await compareWithOlder({ 'paths /categories': undefined });
    expect(stdout).toContain('paths > /categories > get was added');
    expect(code).toBe(0);
  });

  it('rejects a name that is neither a file nor a git ref', async () => {
    const { code, stderr } = await runCommand(main, ['--against', 'missing.json'], {}, directory);
    expect(stderr).toContain('missing.json is neither a file nor a git ref');
    expect(code).toBe(1);
  });
});

describe('npm run openapi:check in a git repository', () => {
  const BROKEN = { [`${CATEGORY} properties description`]: undefined };
  const HARMLESS = { 'info description': 'Pets.' };
  const EXTENDED = { 'paths /colours get': { operationId: 'listColours', responses: {} } };
  let repository: string;
  beforeEach(async () => {
    repository = await mkdtemp(join(tmpdir(), 'petstore-openapi-check-git-'));
    git('init --quiet --initial-branch=main');
    await commit({});
  });
  afterEach(() => rm(repository, { recursive: true }));

  /** Runs git with arguments that are separated by spaces. */
  function git(args: string): void {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
    const options = { cwd: repository, encoding: 'utf8' } as const;
    const { status, stderr } = spawnSync('git', [...identity, ...args.split(' ')], options);
    expect({ args, stderr: status === 0 ? '' : stderr }).toEqual({ args, stderr: '' });
  }

  /** Commits the published document with some changes. */
  async function commit(changes: Record<string, unknown>): Promise<void> {
    const document = edit(published, changes);
    await writeFile(join(repository, 'openapi.json'), JSON.stringify(document));
    git('add .');
    git('commit --quiet --allow-empty --message Change');
  }

  const check = (args: string[] = [], cwd = repository): Promise<CommandResult> =>
    runCommand(main, args, {}, cwd);

  /** Clones the repository with the last commit of each branch only. @returns the path of the clone */
  function cloneShallow(branch: string): string {
    const options = `--quiet --depth 1 --no-single-branch --branch ${branch}`;
    git(`clone ${options} file://${repository} ${repository}/clone`);
    return join(repository, 'clone');
  }

  it('finds a breaking commit that is followed by a harmless one', async () => {
    git('checkout --quiet -b feature');
    await commit(BROKEN);
    await commit({ ...BROKEN, ...HARMLESS });
    expect(await check()).toMatchObject({ code: 1, stdout: expect.stringMatching(/^breaking: /m) });
    expect((await check(['--against', 'HEAD^'])).code).toBe(0);
  });

  it('accepts an incompatible change of an operation that is not released', async () => {
    git('checkout --quiet -b feature');
    await commit(EXTENDED);
    await commit({ 'paths /colours get': { operationId: 'getColours', responses: {} } });
    expect((await check(['--against', 'HEAD^'])).code).toBe(1);
    expect((await check()).code).toBe(0);
  });

  it('ignores what was merged to the target branch in the meantime', async () => {
    git('checkout --quiet -b feature');
    await commit(HARMLESS);
    git('checkout --quiet main');
    await commit(EXTENDED);
    git('checkout --quiet feature');
    expect((await check()).code).toBe(0);
    expect((await check(['--against', 'main'])).code).toBe(1);
  });

  it('compares with the first parent of HEAD on the target branch', async () => {
    git('checkout --quiet -b feature');
    await commit(BROKEN);
    await commit({ ...BROKEN, ...HARMLESS });
    git('checkout --quiet main');
    git('merge --quiet --no-ff --message Merge feature');
    expect((await check()).code).toBe(1);
    await commit({ ...BROKEN, ...EXTENDED });
    expect((await check()).code).toBe(0);
  });

  it('prefers origin/main to main, and --target to both', async () => {
    git('update-ref refs/remotes/origin/main HEAD');
    await commit(BROKEN);
    await commit({ ...BROKEN, ...HARMLESS });
    expect((await check()).code).toBe(1);
    git('branch release HEAD^');
    expect((await check(['--target', 'release'])).code).toBe(0);
    expect(await check(['--target', 'missing'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The target branch missing does not exist'),
    });
  });

  it('compares with the first parent of HEAD if there is no main', async () => {
    await commit(BROKEN);
    git('branch --move trunk');
    expect((await check()).code).toBe(1);
  });

  it('fails in a shallow clone without the merge base', async () => {
    git('checkout --quiet -b feature');
    await commit(HARMLESS);
    git('checkout --quiet main');
    await commit(EXTENDED);
    expect(await check([], cloneShallow('feature'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('git fetch --unshallow'),
    });
  });

  it('skips the check if there is no earlier commit', async () => {
    const skipped = { code: 0, stdout: '' };
    const stderr = expect.stringMatching(/^Skipped: .*earlier/) as unknown;
    expect(await check()).toMatchObject({ ...skipped, stderr });
    await commit(BROKEN);
    const shallow = expect.stringMatching(/^Skipped: .*git fetch --unshallow/) as unknown;
    expect(await check([], cloneShallow('main'))).toMatchObject({ ...skipped, stderr: shallow });
  });
});
