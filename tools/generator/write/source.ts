/** What the writers share: literals, comments and types of TypeScript. */
import { type DtoClass, getParts, type Property, type Schema } from '../model.js';
import { isIdentifier } from '../names.js';

/** TypeScript within a value of {@link literal}. */
export class Code {
  constructor(readonly text: string) {}
}

export const code = (text: string): Code => new Code(text);

/** A property of an object of {@link literal} that has all properties of a variable. */
export const spread = ({ text }: Code): Readonly<Record<string, Code>> => ({
  [`...${text}`]: code(`...${text}`),
});

/** A value as TypeScript, which may contain code; Prettier chooses the quotes. Undefined properties are left out. */
export function literal(value: unknown): string {
  if (value instanceof Code) return value.text;
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const parts = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .map(([key, each]: [string, unknown]) =>
      each instanceof Code && each.text === key ? key : `${propertyName(key)}: ${literal(each)}`,
    );
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
}

/** A call of a function or a decorator. Undefined arguments are left out. */
export const call = (name: string, ...args: readonly unknown[]): string =>
  `${name}(${args
    .filter((each) => each !== undefined)
    .map(literal)
    .join(', ')})`;

/** A list or an object, or undefined if nothing is in it. */
export const ifAny = <Value extends object>(value: Value): Value | undefined =>
  Object.values(value).some((each) => each !== undefined) ? value : undefined;

export const propertyName = (name: string): string =>
  isIdentifier(name) ? name : JSON.stringify(name);

export const access = ({ text }: Code, name: string): Code =>
  code(isIdentifier(name) ? `${text}.${name}` : `${text}[${literal(name)}]`);

/** A doc comment. */
export function comment(text: string): string {
  const lines = text.trim().replaceAll('*/', '*\\/').split('\n');
  return lines.length === 1
    ? `/** ${lines[0]!.trim()} */`
    : `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */`;
}

/** The type of the values of a schema: a union in which no type is contained in another, with null at its end. */
export function toType(schema: Schema): string {
  const types = new Set(toTypes(schema));
  if (types.has('unknown')) return 'unknown';
  if (types.delete('null')) types.add('null');
  return [...types]
    .filter((type) => !LITERAL.test(type) || !types.has(typeof JSON.parse(type)))
    .join(' | ');
}

const LITERAL = /^(["\d-]|(true|false)$)/;

function toTypes(schema: Schema): string[] {
  const { type, class: dto, enum: values, items, properties, additionalProperties, oneOf } = schema;
  if (schema.nullable === true) return [...toTypes({ ...schema, nullable: false }), 'null'];
  if (dto !== undefined) return [dto.name];
  if (schema.binary !== undefined) return ['Buffer'];
  if (oneOf !== undefined) return oneOf.flatMap(toTypes);
  if (values !== undefined) return values.map(literal);
  if (type === 'array') {
    const item = toType(items ?? {});
    return [/^[\w.]+$/.test(item) ? `${item}[]` : `(${item})[]`];
  }
  if (properties !== undefined) return [toObjectType(properties)];
  if (type === 'object') {
    const value = additionalProperties === true ? {} : (additionalProperties ?? {});
    return [`Record<string, ${toType(value)}>`];
  }
  return [type === 'integer' ? 'number' : (type ?? 'unknown')];
}

const toObjectType = (properties: readonly Property[]): string =>
  `{ ${properties.map((each) => `${propertyName(each.name)}${each.required ? '' : '?'}: ${toType(each)}`).join('; ')} }`;

/** A schema as the argument of `@Property`, with classes as functions. */
export function toOptions(schema: Schema & Partial<Property>): object {
  const {
    name: _name,
    required,
    class: dto,
    unique: _u,
    references: _r,
    assigned: _a,
    binary: _b,
    ...own
  } = schema;
  const { items, properties, additionalProperties, oneOf, discriminator, pattern, ...rest } = own;
  return {
    type: dto && toFunction(dto),
    ...rest,
    // What is required has no default.
    default: required === true ? undefined : rest.default,
    pattern,
    optional: required === false ? true : undefined,
    items: items && toOptions(items),
    properties:
      properties && Object.fromEntries(properties.map((each) => [each.name, toOptions(each)])),
    additionalProperties:
      additionalProperties === true
        ? true
        : additionalProperties && toOptions(additionalProperties),
    oneOf: oneOf?.map((each) =>
      each.class === undefined ? toOptions(each) : toFunction(each.class),
    ),
    discriminator: discriminator && {
      propertyName: discriminator.property,
      mapping: Object.fromEntries(
        Object.entries(discriminator.mapping).map(([value, each]) => [value, toFunction(each)]),
      ),
    },
  };
}

const toFunction = ({ name }: DtoClass): Code => code(`() => ${name}`);

/** The classes whose names the type of a schema contains. */
export const getClasses = (schema: Schema): DtoClass[] =>
  getParts(schema).flatMap(({ class: dto }) => dto ?? []);

/** Sorts classes so that each comes after those that it contains, as far as they do not contain one another. */
export function sortClasses(classes: readonly DtoClass[]): DtoClass[] {
  const sorted: DtoClass[] = [];
  const visited = new Set<DtoClass>();
  const visit = (dto: DtoClass): void => {
    if (visited.has(dto)) return;
    visited.add(dto);
    dto.properties.flatMap(getClasses).forEach(visit);
    sorted.push(dto);
  };
  classes.forEach(visit);
  return sorted;
}
