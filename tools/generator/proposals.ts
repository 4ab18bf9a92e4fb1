/** Proposes what a team may say about its contract, as an OpenAPI Overlay. */
import { stringify } from 'yaml';
import type { Column, Module, PlannedOperation, Resource } from './model.js';
import { isSameName, toSingular } from './names.js';
import { type Action, applyActions, select } from './overlay.js';
import { get, items, type Json, resolve, text } from './read/json.js';
import { getRemedy } from './report.js';

/** The names of properties whose values usually identify one object. */
const UNIQUE = /^(slug|sku|isbn|user_?name|login)$/i;

/**
 * Returns an overlay with what the generator does not decide by itself: references, unique properties, and for each stub
 * what makes it an operation on a resource. Where only the team knows, the update is empty, and the description says why.
 *
 * @param plan returns the module of a document
 * @returns undefined if nothing is proposed
 */
export async function toOverlay(
  root: Json,
  plan: (root: Json) => Module | Promise<Module>,
): Promise<string | undefined> {
  const actions = new Map<string, Proposal>();
  // What is proposed may make more possible, such as a reference to what a POST creates.
  for (let current = root; ;) {
    const { resources, operations } = await plan(current);
    const proposed = [
      ...resources.flatMap((resource) => proposeProperties(root, resources, resource)),
      ...operations.flatMap((operation) => proposeOperation(root, operation)),
    ].filter(({ target }) => select({ root }, target).length > 0);
    const added = proposed.filter((each) => !isEmpty(each) && !actions.has(toKey(each)));
    if (added.length === 0) {
      // What is proposed again had no effect.
      for (const each of proposed) actions.delete(toKey(each));
      return toYaml(root, [
        ...actions.values(),
        ...proposed.map(({ target, description }) => ({ target, description, update: {} })),
      ]);
    }
    for (const each of added) actions.set(toKey(each), each);
    current = applyActions(current, added, () => undefined);
  }
}

type Proposal = Required<Pick<Action, 'target' | 'description'>> & { readonly update: Json };

const isEmpty = ({ update }: Proposal): boolean => Object.keys(update).length === 0;

const toKey = ({ target, update }: Proposal): string => `${target} ${Object.keys(update).join()}`;

function toYaml(root: Json, actions: readonly Proposal[]): string | undefined {
  const title = text(get(root['info'], 'title')) ?? 'a contract';
  const version = text(get(root['info'], 'version')) ?? '1.0.0';
  const info = { title: `What the generator proposes for ${title}`, version };
  return actions.length === 0
    ? undefined
    : stringify({ overlay: '1.1.0', info, actions }, { lineWidth: 120 });
}

/** Proposes references to resources of the contract, and unique properties. */
function proposeProperties(
  root: Json,
  resources: readonly Resource[],
  resource: Resource,
): Proposal[] {
  const { columns, request, owners, table } = resource;
  return columns.flatMap((column): Proposal[] => {
    const { name, schema, nullable } = column;
    const target = findProperty(root, request.publishedName, name);
    if (target === undefined || owners.some((each) => each.name === name)) return [];
    const other = resources.find((each) => each.table !== table && mayRefer(column, each));
    if (other !== undefined) {
      const update = { 'x-references': other.table };
      const description = `${name} may be the id of one of ${other.create.path}: delete this action if it is not.`;
      return schema.type === 'array'
        ? [{ target: `${target}.items`, description, update }]
        : [{ target, description, update }];
    }
    const isUnique = UNIQUE.test(name) && schema.type === 'string' && !nullable && !column.unique;
    const description = `No two may have the same ${name}: delete this action if they may.`;
    return isUnique ? [{ target, description, update: { 'x-unique': true } }] : [];
  });
}

/** Whether a property is named like the id of a resource, such as `clinicId` or `clinic_ids`, and has its type. */
function mayRefer({ name, schema, references, join }: Column, { id, table }: Resource): boolean {
  const [, noun] = /^(.+?)_?ids?$/i.exec(name) ?? [];
  const { type, format } = (schema.type === 'array' ? schema.items : schema) ?? {};
  const kind = type !== 'string' ? type : format === 'uuid' ? 'uuid' : 'text';
  return (
    (references ?? join) === undefined &&
    noun !== undefined &&
    /s$/i.test(name) === (schema.type === 'array') &&
    isSameName(noun, toSingular(table)) &&
    kind === id.kind
  );
}

/** Proposes what makes a stub an operation on a resource. */
function proposeOperation(
  root: Json,
  { method, path, implementation }: PlannedOperation,
): Proposal[] {
  if (implementation.kind !== 'stub') return [];
  const { reason } = implementation;
  const operation = `$.paths[${quote(path)}].${method}`;
  const [, schema, name] = /(?:^|assigns )([^\s.]+)\.([^\s.]+)/.exec(reason) ?? [];
  const property = schema && findProperty(root, schema, name!);
  const [target, update] = reason.startsWith('nothing replaces')
    ? [operation, { 'x-resource': true }]
    : property !== undefined && reason.startsWith('nothing says who assigns')
      ? [property, { readOnly: true }]
      : property !== undefined && reason.endsWith('is not a UUID of version 7')
        ? [property, { format: 'uuid' }]
        : [operation, {}];
  const description = `${method.toUpperCase()} ${path} returns 501: ${reason} (${getRemedy(reason)}).`;
  return [{ target, description, update }];
}

/** Returns the JSONPath of a property of a schema of components, also of one of its parts; undefined if it has none. */
function findProperty(root: Json, schema: string, name: string): string | undefined {
  const schemas = get(root['components'], 'schemas');
  const search = (value: unknown, path: string): string | undefined => {
    if (get(get(value, 'properties'), name) !== undefined)
      return `${path}.properties[${quote(name)}]`;
    const reference = get(value, '$ref');
    const [, other] = /^#\/components\/schemas\/([^/]+)$/.exec(String(reference)) ?? [];
    if (other !== undefined)
      return search(resolve(root, value), `$.components.schemas[${quote(other)}]`);
    return items(get(value, 'allOf'))
      .map((part, index) => search(part, `${path}.allOf[${index}]`))
      .find((each) => each !== undefined);
  };
  return search(get(schemas, schema), `$.components.schemas[${quote(schema)}]`);
}

const quote = (name: string): string => `'${name.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
