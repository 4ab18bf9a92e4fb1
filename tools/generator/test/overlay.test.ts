import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { requires } from '../../../test/platform/support/requirements.js';
import { type Action, applyOverlay } from '../overlay.js';
import { toOverlay } from '../proposals.js';
import { readDocument } from '../read/document.js';
import type { Json } from '../read/json.js';
import { getResults, pets, toContent, toDocument, toModule, toResponses } from './excerpts.js';

const CONTRACTS = join(import.meta.dirname, '../../../../shared/contracts');
const published = requires(CONTRACTS, existsSync(CONTRACTS));

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

const propose = (root: Json): Promise<string | undefined> =>
  toOverlay(root, (changed) => toModule(changed));

const toActionsOf = async (root: Json): Promise<Action[]> =>
  (parse((await propose(root)) ?? '{ actions: [] }') as { actions: Action[] }).actions;

const toCollection = (name: string, schema: string, mark = 'x-resource: true'): string => `
  /${name}:
    get: { ${toResponses(`{ type: array, items: ${schema} }`)} }
    post: { ${mark}, requestBody: { required: true, ${toContent(schema)} }, ${toResponses(schema, 201)} }`;

const CLINIC = `{ $ref: '#/components/schemas/Clinic' }`;
const CLINICS = {
  paths: toCollection('clinics', CLINIC),
  schemas:
    'Clinic: { type: object, required: [name], properties: { id: { type: integer, readOnly: true }, name: { type: string } } }',
};
const withProperty = (property: string): Json =>
  pets({
    ...CLINICS,
    properties: `{ id: { type: integer, readOnly: true }, name: { type: string }, ${property} }`,
  });
const toTarget = (name: string): string => `$.components.schemas['Pet'].properties['${name}']`;

describe('what the generator proposes', () => {
  it.each([
    ['clinicId: { type: integer }', toTarget('clinicId'), { 'x-references': 'clinics' }],
    [
      'clinic_id: { type: integer, nullable: true }',
      toTarget('clinic_id'),
      { 'x-references': 'clinics' },
    ],
    [
      'clinicIds: { type: array, items: { type: integer } }',
      `${toTarget('clinicIds')}.items`,
      { 'x-references': 'clinics' },
    ],
    ['clinicid: { type: integer }', toTarget('clinicid'), { 'x-references': 'clinics' }],
    ['clinicId: { type: string }', undefined, undefined],
    ['clinicId: { type: array, items: { type: integer } }', undefined, undefined],
    ['clinicIdea: { type: integer }', undefined, undefined],
    ['clinicId: { type: integer, x-references: clinics }', undefined, undefined],
    ['petId: { type: integer }', undefined, undefined],
  ])('of a property %s is %s', async (property, target, update) => {
    const proposed = await toActionsOf(withProperty(property));
    expect(proposed.map((each) => [each.target, each.update])).toEqual(
      target === undefined ? [] : [[target, update]],
    );
  });

  it('of a required name of an account is that it is unique', async () => {
    const properties = '{ id: { type: integer, readOnly: true }, username: { type: string } }';
    const [action] = await toActionsOf(pets({ properties, required: 'username' }));
    expect(action).toMatchObject({ target: toTarget('username'), update: { 'x-unique': true } });
  });

  it.each([
    ['mark', { mark: 'x-a: 1' }, `$.paths['/pets'].post`, { 'x-resource': true }],
    [
      'id',
      {
        properties:
          '{ id: { type: string, format: ulid, readOnly: true }, name: { type: string } }',
      },
      toTarget('id'),
      { format: 'uuid' },
    ],
    [
      'id that no UUID matches',
      {
        properties:
          '{ id: { type: string, pattern: "^p", readOnly: true }, name: { type: string } }',
      },
      toTarget('id'),
      {},
    ],
    ['rest', { list: '{ type: string }' }, `$.paths['/pets'].get`, {}],
  ])('of a stub is what it lacks: %s', async (_name, parts, target, update) => {
    const root = pets(parts);
    const description = expect.stringContaining('returns 501: ') as string;
    const actions = await toActionsOf(root);
    expect(actions.filter((each) => each.target === target)).toEqual([
      { target, description, update },
    ]);
  });
});

const countImplemented = (root: Json): number =>
  Object.values(getResults(toModule(root))).filter((each) => each.startsWith('implemented')).length;

describe('the overlay of a document', () => {
  it('makes references, which the next run does not propose', async () => {
    const root = withProperty('clinicId: { type: integer }');
    const changed = await apply(root, (await propose(root))!);
    const columns = toModule(changed).resources.flatMap((each) => each.columns);
    expect(columns.find(({ name }) => name === 'clinicId')).toMatchObject({
      references: 'clinics',
    });
    expect(await propose(changed)).toBeUndefined();
  });

  it('implements operations that are marked', async () => {
    const root = toDocument(`
paths: ${toCollection('clinics', CLINIC, 'x-a: 1')}
components: { schemas: { ${CLINICS.schemas} } }`);
    const changed = await apply(root, (await propose(root))!);
    expect([countImplemented(root), countImplemented(changed)]).toEqual([0, 2]);
  });
});

published.describe('the overlay of a published document', () => {
  const files = existsSync(CONTRACTS) ? readdirSync(CONTRACTS) : [''];
  it.each(files)('implements at least what it did before: %s', async (file) => {
    const { root } = await readDocument(join(CONTRACTS, file));
    const overlay = await propose(root);
    const changed = overlay === undefined ? root : await apply(root, overlay);
    expect(countImplemented(changed)).toBeGreaterThanOrEqual(countImplemented(root));
  });
});
