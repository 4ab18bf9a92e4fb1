import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applyOverlay } from '../overlay.js';
import type { Json } from '../read/document.js';

let path: string;
beforeAll(async () => {
  path = join(await mkdtemp(join(tmpdir(), 'petstore-overlay-')), 'a.overlay.yaml');
});
afterAll(() => rm(join(path, '..'), { recursive: true }));

async function apply(root: object, overlay: string): Promise<Json> {
  await writeFile(path, overlay);
  return applyOverlay(root as Json, path);
}

/** An overlay with one action in YAML. */
const toActions = (...actions: string[]): string =>
  `{ overlay: 1.1.0, info: { title: A, version: '1' }, actions: [${actions.join(', ')}] }`;

describe('an overlay', () => {
  const ROOT = {
    a: { b: 1, list: [1, 2] },
    '/pets/{id}': { get: { tags: ['x'] } },
    all: [{ n: 1 }, { n: 2 }],
  };
  it.each<[name: string, action: string, changed: object]>([
    [
      'merges an object',
      '{ target: $.a, update: { c: { d: 2 } } }',
      { a: { ...ROOT.a, c: { d: 2 } } },
    ],
    ['merges the root', '{ target: $, update: { a: { b: 2 } } }', { a: { ...ROOT.a, b: 2 } }],
    ['replaces a scalar', '{ target: $.a.b, update: 2 }', { a: { ...ROOT.a, b: 2 } }],
    ['appends an item', '{ target: $.a.list, update: 3 }', { a: { ...ROOT.a, list: [1, 2, 3] } }],
    [
      'appends several',
      '{ target: $.a, update: { list: [3, 4] } }',
      { a: { ...ROOT.a, list: [1, 2, 3, 4] } },
    ],
    [
      'updates what a filter selects',
      '{ target: "$.all[?@.n > 1]", update: { m: 1 } }',
      { all: [{ n: 1 }, { n: 2, m: 1 }] },
    ],
    ['removes every item', '{ target: "$.all[*]", remove: true }', { all: [] }],
    [
      'copies a value',
      `{ target: "$['/pets/{id}'].get", copy: $.a }`,
      { '/pets/{id}': { get: { tags: ['x'], ...ROOT.a } } },
    ],
    ['changes nothing', '{ target: $.a, update: {} }', {}],
  ])('%s, and leaves the document', async (_name, action, changed) => {
    const before = structuredClone(ROOT);
    expect(await apply(ROOT, toActions(action))).toEqual({ ...ROOT, ...changed });
    expect(ROOT).toEqual(before);
  });

  it('applies actions to the result of those before', async () => {
    const actions = [
      '{ target: $.a, remove: true }',
      '{ target: $, update: { a: { c: 1 } } }',
      '{ target: $.a.c, update: 2 }',
    ];
    expect(await apply(ROOT, toActions(...actions))).toEqual({ ...ROOT, a: { c: 2 } });
  });

  it.each([
    [
      'a target that selects nothing',
      toActions('{ target: $.a, update: {} }', '{ target: $.no, update: {} }'),
      '#/actions/1: $.no selects nothing',
    ],
    ['a target that is not a JSONPath', toActions('{ target: a.b, update: {} }'), '#/actions/0: '],
    ['no target', toActions('{ update: {} }'), '#/actions/0: target'],
    ['an action that does nothing', toActions('{ target: $.a }'), '#/actions/0: has none'],
    ['a copy of several values', toActions('{ target: $.a, copy: $.* }'), '#/actions/0: copy must'],
    ['a copy of nothing', toActions('{ target: $.a, copy: $.no }'), '#/actions/0: copy must'],
    ['no actions', toActions(), '#/actions: '],
    ['another version', '{ overlay: 2.0.0, actions: [{}] }', '#/overlay: '],
    ['broken YAML', '{ overlay: ', '#/: '],
    ['text', 'hello', '#/overlay: '],
    [
      'many targets that select nothing',
      toActions(
        ...Array.from({ length: 99 }, () => `{ target: $.${'n'.repeat(2000)}, update: 1 }`),
      ),
      '… and 89 more',
    ],
  ])('is refused with its place: %s', async (_name, overlay, message) => {
    const error: Error = await apply(ROOT, overlay).then(
      () => new Error('no error'),
      (thrown: Error) => thrown,
    );
    expect(error.message).toContain(message);
    expect(error.message.length).toBeLessThan(6_000);
  });
});
