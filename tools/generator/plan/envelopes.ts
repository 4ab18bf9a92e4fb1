/** Reads responses that are objects with a resource, or with the rows of a list, in one property. */
import type {
  Body,
  DtoClass,
  Envelope,
  PagingProperties,
  PagingRole,
  Property,
  Schema,
  Sent,
  Shown,
  Success,
} from '../model.js';
import { getProperties } from '../model.js';
import { toBareName } from '../names.js';

/** What the query parameters and the properties of lists tell, by their names in lower case without separators. */
const PAGING_ROLES: readonly (readonly [RegExp, PagingRole])[] = [
  // Those who publish a count mean all rows, as Django does.
  [/^(count|total(count|items|elements)?)$/, 'total'],
  [/^(limit|(items|results)?perpage|page(size|limit)|maxresults|size|take)$/, 'limit'],
  [/^((page)?offset|skip)$/, 'offset'],
  [/^(page|pageno|pagenumber|currentpage)$/, 'page'],
  [/^(pages|totalpages|pagecount)$/, 'pages'],
  [/^(next(page)?|(next(page)?|continuation)token|(next(page)?)?cursor)$/, 'next'],
  [/^has(more|next)$/, 'hasMore'],
];

export const getRole = (name: string): PagingRole | undefined =>
  PAGING_ROLES.find(([pattern]) => pattern.test(toBareName(name)))?.[1];

/** What a property of a list tells, if it has the type of that. */
function toRole(property: Property): PagingRole | undefined {
  const { name, type, format, description = '', example, nullable, required } = property;
  const role = getRole(name);
  if (getProperties(property) !== undefined) return undefined;
  const isNumber = type === 'integer' || type === 'number';
  if (role === 'next') {
    const isUrl =
      type === 'string' &&
      /\bur[il]s?\b|\blinks?\b|:\/\//i.test(`${description} ${String(example)}`);
    const isText = type === 'string' && format === undefined;
    if (isUrl || (type !== undefined && !isText && !isNumber)) return undefined;
    if (nullable === true) return 'next or null';
    return required && isText && (property.minLength ?? 0) === 0 && property.pattern === undefined
      ? 'next or empty'
      : role;
  }
  if (type === undefined) return role;
  return (role === 'hasMore' ? type === 'boolean' : isNumber) ? role : undefined;
}

export const isNext = (role: PagingRole): boolean => role.startsWith('next');

/** Properties that tell something else if another one has their role: the rows of the page, or the cursor of this page. */
const VAGUE = /^(count|cursor)$/;

/** What the properties of a list tell, by their names. */
function toRoles(properties: readonly Property[]): Map<string, PagingRole> {
  const roles = new Map(
    properties.flatMap((each) => {
      const role = toRole(each);
      return role === undefined ? [] : [[each.name, role] as const];
    }),
  );
  const all = [...roles].map(([name, role]) => ({ name, role: isNext(role) ? 'next' : role }));
  for (const { name, role } of all)
    if (
      VAGUE.test(toBareName(name)) &&
      all.some((other) => other.name !== name && other.role === role)
    )
      roles.delete(name);
  return roles;
}

/** What an envelope always says of a successful operation; undefined if it says something else. */
function toConstant(property: Property, { status, description }: Success): unknown {
  const { type, enum: values = [], default: value } = property;
  const name = toBareName(property.name);
  if (values.length === 1) return values[0];
  if (value !== undefined || values.length > 0) return value;
  if (type === 'boolean' && /^(success|ok)$/.test(name)) return true;
  if (type === 'string' && /^(message|msg)$/.test(name)) return description;
  const isNumber = type === 'integer' || type === 'number';
  return isNumber && /^status(code)?$/.test(name) ? status : undefined;
}

/**
 * Returns the envelope of a response, unless it has a required property that nothing is known of.
 *
 * @param isContent whether a property has the resource or the rows; only one may
 * @param mayLack whether it may have neither, and optional properties that nothing is known of
 */
export function toEnvelope(
  success: Success,
  isContent: (property: Property) => boolean,
  mayLack = false,
): Envelope | undefined {
  const properties = (success.schema && getProperties(success.schema)) ?? [];
  const [content, ...more] = properties.filter(isContent);
  const paging: Record<string, PagingProperties[string]> = {};
  const constants: Record<string, unknown> = {};
  const unknown: string[] = [];
  const isList = content?.type === 'array';
  const roles = toRoles(isList ? properties : []);
  for (const property of properties.filter((each) => each !== content)) {
    const { name, required, class: dto } = property;
    const inner = toRoles(isList ? (dto?.properties ?? []) : []);
    const others = dto?.properties.filter((each) => !inner.has(each.name)) ?? [];
    const role = roles.get(name);
    const constant = toConstant(property, success);
    if (role !== undefined) paging[name] = role;
    else if (inner.size > 0 && !others.some((each) => each.required)) {
      paging[name] = Object.fromEntries(inner);
      unknown.push(...others.map((each) => `${name}.${each.name}`));
    } else if (constant !== undefined) constants[name] = constant;
    else if (required) return undefined;
    else unknown.push(name);
  }
  if (more.length > 0) return undefined;
  if (content === undefined && unknown.length > 0 && !mayLack) return undefined;
  return { content, paging, constants, unknown };
}

/** Whether a response has nothing but one object with the name, and what is known of any response. */
export const hasOnly = (success: Success, name: string): boolean =>
  toEnvelope(success, (each) => each.name === name && each.class !== undefined)?.unknown.length ===
  0;

/** Whether a schema says no more than that a value is an object. */
export const isAnyObject = ({ type, additionalProperties }: Schema): boolean =>
  type === 'object' && additionalProperties === true;

/**
 * Returns how a response says that a resource was deleted: with what is known of any response, or an object without known
 * properties. Undefined if it has to say more.
 */
export function toAcknowledgement({ schema = {}, ...success }: Success): Shown | undefined {
  const properties = getProperties(schema) ?? [];
  const deleted = properties.filter(
    ({ name, type }) => type === 'boolean' && toBareName(name) === 'deleted',
  );
  const rest = properties.filter((each) => !deleted.includes(each));
  const envelope = toEnvelope({ ...success, schema: { properties: rest } }, () => false, true);
  const isObject = properties.length > 0 || schema.type === 'object';
  if (!isObject || envelope === undefined) return undefined;
  const isDeleted = deleted.map(({ name }) => [name, true] as const);
  const constants = { ...envelope.constants, ...Object.fromEntries(isDeleted) };
  return { dto: undefined, envelope: { ...envelope, constants } };
}

/**
 * Returns how a response shows a resource: as a whole, in a property, or not at all; undefined if it shows something else.
 *
 * @param shows whether a class shows the resource
 * @param own the class of the resource, which any object may be
 */
export function toShown(
  success: Success,
  shows: (dto: DtoClass) => boolean,
  own?: DtoClass,
): Shown | undefined {
  const { schema } = success;
  if (schema === undefined) return { dto: undefined, envelope: undefined };
  if (own !== undefined && isAnyObject(schema)) return { dto: own, envelope: undefined };
  if (schema.class === undefined) return undefined;
  const envelope = toEnvelope(success, ({ class: dto }) => dto !== undefined && shows(dto));
  const isWhole = envelope?.content === undefined || envelope.unknown.length > 0;
  if (isWhole && shows(schema.class)) return { dto: schema.class, envelope: undefined };
  // What has an id is another object, which refers to one.
  if (envelope?.unknown.some((name) => toBareName(name) === 'id') === true) return undefined;
  return envelope && { dto: envelope.content?.class, envelope };
}

/**
 * Returns the class that a body has the properties of a resource in: its own, or that of its only property.
 *
 * @param isEnvelope whether a property of a class has the resource, if the body has no other one
 */
export function toSent(
  { schema: { class: dto } }: Body,
  isEnvelope: (name: string, dto: DtoClass) => boolean,
): Sent | undefined {
  if (dto === undefined) return undefined;
  const [only, ...others] = dto.properties;
  return only?.class !== undefined && others.length === 0 && isEnvelope(only.name, only.class)
    ? { dto: only.class, property: only.name }
    : { dto, property: undefined };
}
