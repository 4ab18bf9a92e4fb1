import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { getFileInfo } from 'prettier';
import { readDocument } from '../read/document.js';
import { toSafeMarkdown } from '../read/json.js';

let directory: string;
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), 'petstore-contract-'))));
afterAll(() => rm(directory, { recursive: true }));

const write = async (name: string, text: string): Promise<string> => {
  const path = join(directory, name);
  await writeFile(path, text);
  return path;
};
const toYaml = (paths: string, version = '3.1.0'): string =>
  `{ openapi: ${version}, info: { title: A, version: '1' }, paths: ${paths} }`;
const getError = (path: string): Promise<Error> =>
  readDocument(path).then(
    () => new Error('no error'),
    (error: Error) => error,
  );

it.each([
  ['library.openapi.yaml', true],
  ['contracts/library.openapi.json', true],
  ['compose.yaml', false],
])('a document of others is not formatted: %s is ignored %s', async (path, ignored) => {
  const ignorePath = join(import.meta.dirname, '../../../.prettierignore');
  expect(await getFileInfo(path, { ignorePath })).toMatchObject({ ignored });
});

describe('a document', () => {
  const JSON_TEXT = '{ "openapi": "3.0.3", "info": { "title": "A", "version": "1" }, "paths": {} }';
  it.each([
    ['of OpenAPI 3.0 in YAML', 'a.yaml', toYaml('{}', '3.0.0')],
    ['of OpenAPI 3.1 in YAML', 'b.yml', toYaml('{}')],
    ['of OpenAPI 3.2 in YAML', 'c.yml', toYaml('{}', '3.2.0')],
    ['in JSON', 'c.json', JSON_TEXT],
    ['with a byte order mark', 'd.json', `\uFEFF${JSON_TEXT}`],
  ])('%s is read', async (_name, name, text) => {
    const { root, problems } = await readDocument(await write(name, text));
    expect(root).toMatchObject({ info: { title: 'A' } });
    expect(problems).toEqual([]);
  });

  it('is read with the files beside it', async () => {
    const pet = `{ type: object, properties: { owner: { $ref: '#/Owner' } } }`;
    await write('pets.yaml', `{ Pet: ${pet}, Owner: { type: string } }`);
    await write('item.yaml', '{ get: { responses: { 200: { description: OK } } } }');
    const content = `{ application/json: { schema: { $ref: 'pets.yaml#/Pet' } } }`;
    const get = `{ responses: { 200: { description: OK, content: ${content} } } }`;
    const path = await write(
      'main.yaml',
      toYaml(`{ /a: { get: ${get} }, /b: { $ref: item.yaml } }`),
    );
    const { root } = await readDocument(path);
    expect(JSON.stringify(root)).not.toContain('.yaml');
    expect(root).toMatchObject({
      paths: { '/b': { get: {} } },
      components: { schemas: { Pet: { type: 'object' } } },
    });
  });

  it('is converted if it is Swagger 2.0', async () => {
    const path = await write('old.yaml', `{ swagger: '2.0', info: { title: a }, paths: {} }`);
    expect((await readDocument(path)).root).toMatchObject({ openapi: '3.0.4', paths: {} });
  });

  it('is read although details are not as OpenAPI requires, which it names', async () => {
    const path = await write(
      'odd.yaml',
      toYaml(`{ /a: { get: { summary: 1, responses: {}, x-a: { $ref: b } } } }`),
    );
    const { problems } = await readDocument(path);
    expect(problems).toEqual([
      expect.stringMatching(/odd\.yaml#\/paths\/~1a\/get\/summary: .*string/),
      expect.stringContaining(`odd.yaml#/paths/~1a/get/x-a: Can't resolve $ref`),
    ]);
  });

  // Each has the one before twice.
  it.each([
    ['a <b>word</b>, 1 < 2', 'a <b>word</b>, 1 < 2'],
    ['<script src="a">x</SCRIPT>', '&lt;script src="a">x&lt;/SCRIPT>'],
    ['<img src=x onerror=alert(1)>', '&lt;img src=x onerror=alert(1)>'],
    ['[a](javascript:alert(1))', '[a](javascript&#8203;:alert(1))'],
  ])('shows what a browser would run as text: %s', (markdown, expected) =>
    expect(toSafeMarkdown(markdown)).toBe(expected),
  );

  const ALIASES = `x-0: &a0 1\n${Array.from({ length: 40 }, (_, i) => `x-${i}a: &a${i + 1} [*a${i}, *a${i}]\n`).join('')}openapi: 3.1.0`;
  const UNRESOLVED = `Can't resolve $ref`;
  it.each([
    ['a missing file', undefined, '#/', 'refused.yaml'],
    ['broken YAML', 'openapi: [', '#/', ''],
    ['broken JSON', '{ "openapi": ', '#/', ''],
    ['text', 'hello', '#/', ''],
    ['an empty file', '', '#/', ''],
    ['another document', '{ name: petstore, version: 1 }', '#/', ''],
    ['AsyncAPI', `{ asyncapi: '2.6.0', info: {}, channels: {} }`, '#/openapi', '3.0, 3.1 or 3.2'],
    ['Swagger 1.2', `{ swagger: '1.2', info: {}, paths: {} }`, '#/', ''],
    ['OpenAPI 4', toYaml('{}', '4.0.0'), '#/', ''],
    ['a path that is a list', toYaml('{ /a: [] }'), '#/paths/~1a', 'Expected type'],
    ['an operation that is text', toYaml('{ /a: { get: b } }'), '#/paths/~1a/get', 'Expected type'],
    ['a reference to nothing', toYaml(`{ /a: { $ref: '#/b' } }`), '#/paths/~1a', UNRESOLVED],
    [
      'a reference to a folder above',
      toYaml(`{ /a: { $ref: '../a' } }`),
      '#/paths/~1a',
      'Refused /',
    ],
    ['an absolute reference', toYaml(`{ /a: { $ref: '/etc/a' } }`), '#/paths/~1a', 'Refused /etc'],
    ['one over http', toYaml(`{ /a: { $ref: 'http://[::1]:1/' } }`), '#/paths/~1a', 'Refused http'],
    ['an object that contains itself', `&a ${toYaml('{ /a: *a }')}`, '#/', 'aliases'],
    ['one with exponential aliases', ALIASES, '#/', 'aliases'],
    ['a reference to no file', toYaml(`{ /a: { $ref: './b' } }`), '#/paths/~1a', UNRESOLVED],
  ])('is refused with its place if it is %s', async (_name, text, pointer, reason) => {
    const path = join(directory, 'refused.yaml');
    await rm(path, { force: true });
    if (text !== undefined) await write('refused.yaml', text);
    const error = await getError(path);
    expect(error).toMatchObject({ name: 'Error', problems: expect.any(Array) });
    expect([path, relative('.', path)].map((file) => `${file}${pointer}: `)).toContain(
      /^(.*?#\S*: )/.exec(error.message)?.[1],
    );
    expect(error.message).toContain(reason);
  });

  it('is refused with a message of bounded size', async () => {
    const paths = Array.from({ length: 500 }, (_, index) => `/${'a'.repeat(2_000)}${index}: hello`);
    const path = await write('long.yaml', toYaml(`{ ${paths.join(', ')} }`));
    const error = await getError(path);
    expect(error.message.length).toBeLessThan(6_000);
    expect(error.message).toMatch(/… and \d+ more$/);
  });
});
