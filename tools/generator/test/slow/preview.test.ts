/** Previews contracts, and runs the commands that it prints. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { requires } from '../../../../test/platform/support/requirements.js';
import { waitFor } from '../../../../test/platform/support/wait.js';
import { toDocument as toFieldsDocument } from '../../read/fields.js';
import { pets, toContent, toDocument, toResponses } from '../excerpts.js';

const ROOT = join(import.meta.dirname, '../../../..');
const CONTRACTS = join(ROOT, '../shared/contracts');
const published = requires(CONTRACTS, existsSync(CONTRACTS));

const started: { readonly kill: (signal: NodeJS.Signals) => void }[] = [];

/** Where the previews make their folders. */
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-previews-'));
  await mkdir(join(directory, 'contracts'));
});
afterEach(async () => {
  // Those of a test that failed.
  for (const { kill } of started.splice(0)) kill('SIGKILL');
  await rm(directory, { recursive: true });
});

const write = async (name: string, text: string): Promise<string> => {
  const path = join(directory, 'contracts', name);
  await writeFile(path, text);
  return path;
};

/** A command `npm run preview`, with a process group of its own, as in a terminal. */
function preview(contract: string, input = '', ...options: string[]) {
  const child = spawn('npm', ['run', '--silent', 'preview', '--', contract, ...options], {
    cwd: ROOT,
    env: { ...process.env, TMPDIR: directory },
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stdin.end(input);
  // Once all processes of the command have ended.
  const ended = new Promise<string>((resolve) => child.on('close', () => resolve(output)));
  let isEnded = false;
  void ended.then(() => (isEnded = true));
  const kill = (signal: NodeJS.Signals, who: 'group' | 'npm' = 'group'): void => {
    if (!isEnded) process.kill(who === 'group' ? -child.pid! : child.pid!, signal);
  };
  started.push({ kill });
  return {
    ended,
    kill,
    async isReady(): Promise<string> {
      await waitFor(() => isEnded || output.includes('Ctrl-C'));
      expect(output).toContain('Press Ctrl-C');
      return output;
    },
  };
}

/** Runs the printed commands in their order, and returns the status of each response. */
const runCommands = (output: string): string[] =>
  [...output.matchAll(/^curl .*(\n {2}.*)*$/gm)].map(([command]) =>
    execFileSync('sh', ['-c', `${command} -s -o ${directory}/body -w '%{http_code}'`], {
      encoding: 'utf8',
    }),
  );

const getFolders = (): string[] =>
  readdirSync(directory).filter((name) => name.startsWith('petstore-preview-'));

const isRunning = (folder: string): boolean => {
  try {
    return process.kill(Number(/\d+/.exec(folder)![0]), 0);
  } catch {
    return false;
  }
};

const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' });

/** Returns a hash of all files of the checkout that git does not ignore, and of its index. */
function hashCheckout(): string {
  const files = git('ls-files', '--cached', '--others', '--exclude-standard', '-z').split('\0');
  const hash = createHash('sha256');
  const index = git('rev-parse', '--path-format=absolute', '--git-path', 'index').trim();
  for (const path of [index, ...files.filter(Boolean).map((file) => join(ROOT, file))])
    hash.update(path).update(existsSync(path) ? readFileSync(path) : 'deleted');
  return hash.digest('hex');
}

const OWNER = `{ $ref: '#/components/schemas/Owner' }`;
const TOY = `{ $ref: '#/components/schemas/Toy' }`;
const toCreate = (schema: string): string =>
  `post: { x-resource: true, requestBody: { required: true, ${toContent(schema)} }, ${toResponses(schema, 201)} }`;

const USER = `{ $ref: '#/components/schemas/User' }`;
const POST = `{ $ref: '#/components/schemas/Post' }`;
const ITEM = '{ delete: { responses: { 204: { description: Deleted } } } }';
/** Users of a realm, which nothing creates, from a form; their posts, whose POST returns only an id, and likes of these. */
const REALMS = pets({
  paths: `/{realm}/users: { get: { ${toResponses(`{ type: array, items: ${USER} }`)} },
      post: { requestBody: { required: true, ${toContent(USER, 'application/x-www-form-urlencoded')} }, ${toResponses(USER, 201)} } }
  /{realm}/users/{userId}: ${ITEM}
  /{realm}/users/{userId}/posts: { get: { ${toResponses(`{ type: array, items: ${POST} }`)} },
      post: { requestBody: { required: true, ${toContent(POST)} },
        ${toResponses('{ type: object, properties: { id: { type: integer } } }', 201)} } }
  /{realm}/users/{userId}/posts/{postId}: ${ITEM}
  /{realm}/users/{userId}/posts/{postId}/likes: { get: { ${toResponses(`{ type: array, items: ${TOY} }`)} }, ${toCreate(TOY)} }`,
  schemas: `User: { type: object, required: [name], properties: { id: { type: integer, readOnly: true }, name: { type: string },
        tags: { type: array, items: { type: string } }, place: { type: object, properties: { room: { type: string } } } } },
      Post: { type: object, required: [text, categoryId], properties: { id: { type: integer, readOnly: true },
        text: { type: string, enum: [a, b] }, categoryId: { type: integer, x-references: categories } } },
      Toy: { type: object, required: [label], properties: { id: { type: integer, readOnly: true }, label: { type: string } } }`,
});

const DOCUMENTS: Readonly<Record<string, object>> = {
  pets: pets(),
  // An unique and quoted text, an owner with a UUID, and toys below a pet.
  related: pets({
    properties: `{ id: { type: integer, readOnly: true }, name: { type: string, enum: ["Rex's", "Max's"] },
      tag: { type: string, maxLength: 9, x-unique: true }, ownerId: { type: string, format: uuid, x-references: owners } }`,
    required: 'name, ownerId, tag',
    paths: `/owners: { get: { ${toResponses(`{ type: array, items: ${OWNER} }`)} }, ${toCreate(OWNER)} }
  /pets/{petId}/toys: { get: { ${toResponses(`{ type: array, items: ${TOY} }`)} }, ${toCreate(TOY)} }`,
    schemas: `Owner: { type: object, required: [name], properties: { id: { type: string, format: uuid, readOnly: true }, name: { type: string } } },
      Toy: { type: object, required: [label], properties: { id: { type: integer, readOnly: true }, label: { type: string } } }`,
  }),
  realms: REALMS,
  fields: toFieldsDocument(
    {
      name: 'shelves',
      fields:
        'name:string(1..9):unique code:decimal(8,2) size:enum(s,m) at:date-time labels:text[1..5] place:{room:text} counts:map(integer)? made:date=2026-01-01',
      uuid: true,
    },
    new Map(),
  ),
};

const NOTHING = JSON.stringify(
  toDocument(`paths: { /a: { get: { ${toResponses('{ type: string }')} } } }`),
);
const REFERENCE = NOTHING.replace('"type":"string"', '"$ref":"../package.json"');

describe('npm run preview', () => {
  it.each<[name: string, count: number, ...options: string[]]>([
    ['pets', 1],
    ['related', 3, '--prefix', '/api/v2'],
    ['realms', 4],
    ['fields', 1],
  ])(
    'prints commands that create each resource of a document: %s',
    async (name, count, ...options) => {
      const before = hashCheckout();
      const file = await write(`${name}.openapi.json`, JSON.stringify(DOCUMENTS[name]));
      const process = preview(file, '', ...options);
      expect(runCommands(await process.isReady())).toEqual(
        Array.from({ length: count }, () => '201'),
      );
      process.kill('SIGINT');
      await process.ended;
      expect([getFolders(), hashCheckout()]).toEqual([[], before]);
    },
  );

  it('reads standard input, and files beside a document', async () => {
    const text = JSON.stringify(pets());
    await write('owner.yaml', '{ type: object, properties: { id: { type: integer } } }');
    const owner = await write(
      'main.openapi.json',
      text.replace('"type":"string"', '"$ref":"owner.yaml"'),
    );
    const [input, file] = [preview('-', text), preview(owner)];
    for (const each of [input, file]) expect(runCommands(await each.isReady())).toEqual(['201']);
    // Neither removes the folder of the other.
    expect(getFolders()).toHaveLength(2);
    input.kill('SIGKILL');
    await input.ended;
    expect(getFolders()).toHaveLength(2);
    // Until the parent process has read its status, it still has its id.
    await waitFor(() => getFolders().some((name) => !isRunning(name)));
    const next = preview('-', text);
    await next.isReady();
    expect(getFolders()).toHaveLength(2);
    expect(runCommands(await file.isReady())).toEqual(['201']);
    for (const each of [next, file]) each.kill('SIGHUP');
    await Promise.all([next.ended, file.ended]);
    expect(getFolders()).toEqual([]);
  });

  it.each([
    ['a file that cannot be read', 'missing.openapi.yaml', '', /^missing\.openapi\.yaml#\/: .+$/],
    ['text', '-', 'hello', /^\S+: .+$/],
    ['a document that refers to a file, without its folder', '-', REFERENCE, /Can't resolve \$ref/],
    [
      'nothing that can be implemented',
      '-',
      NOTHING,
      /^-: nothing to preview, because all 1 operations .+$/,
    ],
  ])('says in one sentence what it cannot preview: %s', async (_name, contract, input, message) => {
    const output = await preview(contract, input).ended;
    expect(output.trim()).toMatch(message);
    expect([output.trim().split('\n'), getFolders()]).toEqual([[output.trim()], []]);
  });
});

published.describe('npm run preview of a published document', () => {
  it.each([
    ['swagger-petstore', 3],
    ['museum', 1],
    ['oai-petstore-expanded', 1],
  ])('prints commands that create each resource: %s', async (name, count) => {
    const before = hashCheckout();
    const process = preview(join(CONTRACTS, `${name}.openapi.yaml`));
    const statuses = runCommands(await process.isReady());
    expect(statuses).toHaveLength(count);
    expect(statuses.join(' ')).toMatch(/^(20[01] ?)+$/);
    process.kill('SIGTERM', 'npm');
    await process.ended;
    expect([getFolders(), hashCheckout()]).toEqual([[], before]);
  });
});
