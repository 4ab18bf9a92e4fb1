/**
 * The rule: a `POST` and a `GET` of the same object make a resource, whose table has a column for each property that the
 * `GET` shows.
 */
import type {
  DtoClass,
  IdKind,
  Operation,
  Owner,
  Property,
  Resource,
  Schema,
  Wrapped,
} from '../model.js';
import {
  isSameName,
  makeUnique,
  toCamelCase,
  toMemberName,
  toPascalCase,
  toSingular,
  toSnakeCase,
} from '../names.js';
import { getParameters, toPathKey } from '../read/contract.js';
import { planColumns } from './columns.js';

/** Returns a resource, or the object with the resource as its only property. */
export function unwrap(schema: Schema | undefined): Wrapped | undefined {
  const dto = schema?.class;
  if (dto === undefined) return undefined;
  const [property, ...others] = dto.properties;
  return property?.class !== undefined && others.length + dto.unusable.length === 0
    ? { property: property.name, dto: property.class }
    : { dto };
}

/** Returns the items of a list: of an array, or of an object with one array at its top. */
export function getItems(schema: Schema | undefined): Wrapped | undefined {
  if (schema?.items?.class !== undefined) return { dto: schema.items.class };
  const arrays = schema?.class?.properties.filter(({ type }) => type === 'array') ?? [];
  const dto = arrays[0]?.items?.class;
  return dto === undefined || arrays.length > 1 ? undefined : { property: arrays[0]!.name, dto };
}

/** Returns whether two classes are the same schema, or have the same names of properties. */
export const isSame = (a: DtoClass, b: DtoClass): boolean => a === b || toNames(a) === toNames(b);

const toNames = ({ properties, unusable }: DtoClass): string =>
  JSON.stringify([...properties, ...unusable].map(({ name }) => name).toSorted());

/** Returns the route of the collection of a path, without the last parameter and a trailing slash. */
export const toCollection = (path: string): string =>
  toPathKey(path)
    .replace(/\/$/, '')
    .replace(/\/\{\}$/, '');

/** Returns whether a path ends with a parameter. */
export const isItem = (path: string): boolean => /\}\/?$/.test(path);

const isMine = (path: string): boolean => path.split('/').includes('me');

/** The reasons why `POST` operations do not make resources. */
export type Reasons = Map<Operation, string>;

/**
 * Plans the resources of operations.
 *
 * @param taken the names of the tables of the platform and of other modules
 * @param reasons receives the reasons why `POST` operations do not make resources
 */
export function planResources(
  operations: readonly Operation[],
  module: string,
  taken: readonly string[],
  reasons: Reasons,
): Resource[] {
  const resources: Resource[] = [];
  const tables = new Set(taken);
  const names = new Set<string>();
  const members = new Set(operations.map(({ name }) => name.toLowerCase()));
  const sorted = operations
    .filter(({ method, path }) => method === 'post' && !isItem(path))
    .toSorted((a, b) => a.path.split('/').length - b.path.split('/').length);
  for (const post of sorted) {
    const found = findShown(post, operations, resources);
    if (typeof found === 'string') {
      reasons.set(post, found);
      continue;
    }
    const { dto, shownBy, key, owners } = found;
    const segments = post.path.split('/').filter((each) => each !== '' && !each.startsWith('{'));
    const last = toSnakeCase(segments.at(-1)!).slice(0, 30).replace(/_$/, '');
    const isTaken = /^(sqlite|pg)_/.test(last) || tables.has(last);
    const wanted = isTaken ? toSnakeCase(`${module} ${last}`).slice(0, 30) : last;
    const table = makeUnique(wanted, tables, '_');
    const member = toMemberName(table);
    const isUsed = members.has(member.toLowerCase());
    const rows = makeUnique(isUsed ? `${member}Resource` : member, members);
    const resource: Resource = {
      name: makeUnique(toPascalCase(toSingular(table)), names),
      table,
      members: { rows, list: makeUnique(`${rows}List`, members) },
      dto,
      shownBy,
      route: toCollection(post.path),
      id: toId(findId(dto, key), unwrap(post.body?.schema)?.dto),
      columns: [],
      owners,
    };
    resource.columns.push(...planColumns(resource));
    resources.push(resource);
  }
  return resources;
}

/** Returns the class of the body of the `GET` that returns what a `POST` creates, or the reason why there is none. */
function findShown(
  post: Operation,
  operations: readonly Operation[],
  resources: readonly Resource[],
): { dto: DtoClass; shownBy: string; key: string | undefined; owners: Owner[] } | string {
  if (post.isManual) return 'x-resource says that it makes no resource';
  if (isMine(post.path)) return '`me` is the caller, whom the service does not know';
  const body = unwrap(post.body?.schema);
  if (post.body === undefined) return 'it has no body, so it creates nothing';
  if (body === undefined) return 'its body is not a JSON object with properties';
  const route = toCollection(post.path);
  const gets = operations.filter(
    ({ method, path }) => method === 'get' && toCollection(path) === route && !path.includes('{}'),
  );
  const created = unwrap(post.success.schema);
  if (created === undefined && (post.success.schema ?? post.success.contentTypes) !== undefined)
    return 'its response is not an object, its id, or nothing';
  const key = operations
    .filter(({ path }) => isItem(path) && toCollection(path) === route)
    .map(({ path }) => getParameters(path).at(-1)!)[0];
  const count = getParameters(post.path).length;
  const read = gets.find(({ path }) => isItem(path) && getParameters(path).length > count);
  const list = gets.find(({ path }) => !isItem(path));
  const shown = [
    { dto: unwrap(read?.success.schema)?.dto, by: read },
    { dto: getItems(list?.success.schema)?.dto, by: list },
  ];
  const isId = (dto: DtoClass, other: DtoClass): boolean =>
    dto.properties.length === 1 &&
    dto.properties[0] !== undefined &&
    findId(other, key)?.name === dto.properties[0].name;
  const match = shown.find(
    ({ dto }) =>
      dto !== undefined &&
      (created === undefined || isSame(created.dto, dto) || isId(created.dto, dto)),
  );
  if (match?.dto === undefined || match.by === undefined) {
    const paths = `GET ${post.path.replace(/\/$/, '')}${key === undefined ? '' : `/{${key}}`}`;
    return gets.length === 0
      ? `no ${paths} shows what it creates`
      : `${gets.map(({ path }) => `GET ${path}`).join(' and ')} shows another object than it returns`;
  }
  const { dto } = match;
  const other = resources.find((each) => each.dto === dto);
  if (other !== undefined)
    return `the rows of ${other.dto.publishedName} are created by POST ${other.route} already`;
  if (key !== undefined && findId(dto, key) === undefined)
    return `${dto.publishedName} has no \`${[...new Set([key, 'id'])].join('` or `')}\``;
  const owners = findOwners(post, resources);
  if (typeof owners === 'string') return owners;
  return { dto, shownBy: `GET ${match.by.path}`, key, owners };
}

/** Returns the parent for each parameter of a path, or the reason why one has none. */
function findOwners({ path }: Operation, resources: readonly Resource[]): Owner[] | string {
  const segments = path.split('/');
  const owners: Owner[] = [];
  for (const [index, segment] of segments.entries()) {
    if (!segment.startsWith('{')) continue;
    const route = toPathKey(segments.slice(0, index).join('/'));
    const resource = resources.find((each) => each.route === route);
    if (resource === undefined || resource.owners.length !== owners.length)
      return `\`${segment}\` is not the id of a resource`;
    const property = makeUnique(
      `${toCamelCase(resource.name)}Id`,
      new Set(owners.map((each) => each.property.toLowerCase())),
    );
    owners.push({ parameter: segment.slice(1, -1), resource, property });
  }
  return owners;
}

/** Returns the property with the name of the path parameter, or `id`. */
export const findId = (dto: DtoClass, key: string | undefined): Property | undefined =>
  dto.properties.find(({ name }) => key !== undefined && isSameName(name, key)) ??
  dto.properties.find(({ name }) => name === 'id');

function toId(property: Property | undefined, body: DtoClass | undefined): Resource['id'] {
  const sent = body?.properties.find(({ name }) => name === property?.name);
  const byClient =
    sent !== undefined && sent.required && sent.readOnly !== true && property?.readOnly !== true;
  const isNumber =
    property === undefined || property.type === 'integer' || property.type === 'number';
  const isText = sent !== undefined && sent.name !== 'id' && sent.readOnly !== true;
  const isChosenText = (isText || byClient) && property?.format !== 'uuid';
  const kind: IdKind = isNumber ? 'integer' : isChosenText ? 'text' : 'uuid';
  const length = kind === 'text' ? Math.min(sent?.maxLength ?? 255, 255) : undefined;
  return { property: property?.name, kind, byClient, length };
}
