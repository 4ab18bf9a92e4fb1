/** What the writers share: literals, comments and types of TypeScript. */
import { type DtoClass, getParts, type Property, type Schema } from '../model.js';
import { isIdentifier } from '../names.js';

/** A string of TypeScript; Prettier chooses the quotes. */
export const quote = (text: string): string => JSON.stringify(text);

/** A JSON value in the style of the codebase. */
export function literal(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${propertyName(key)}: ${literal(each)}`)
    .join(', ')} }`;
}

/** An object of TypeScript, from code; undefined values are left out. */
export function object(properties: Readonly<Record<string, string | undefined>>): string {
  const parts = Object.entries(properties).flatMap(([key, code]) =>
    code === undefined ? [] : [key === code ? key : `${propertyName(key)}: ${code}`],
  );
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
}

export const propertyName = (name: string): string => (isIdentifier(name) ? name : quote(name));

export const access = (target: string, name: string): string =>
  isIdentifier(name) ? `${target}.${name}` : `${target}[${quote(name)}]`;

/** A doc comment. */
export function comment(text: string | undefined): string {
  if (text === undefined) return '';
  const lines = text.trim().replaceAll('*/', '*\\/').split('\n');
  return lines.length === 1
    ? `/** ${lines[0]!.trim()} */`
    : `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */`;
}

/** The first sentence of a description, for a comment. */
export const firstSentence = (text: string | undefined): string | undefined =>
  text
    ?.trim()
    .split(/(?<=[.!?])\s|\n/)[0]
    ?.slice(0, 200);

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
  if (type === 'object')
    return [
      `Record<string, ${additionalProperties === true || additionalProperties === undefined ? 'unknown' : toType(additionalProperties)}>`,
    ];
  return [type === 'integer' ? 'number' : (type ?? 'unknown')];
}

const toObjectType = (properties: readonly Property[]): string =>
  `{ ${properties.map((each) => `${propertyName(each.name)}${each.required ? '' : '?'}: ${toType(each)}`).join('; ')} }`;

/** The argument of `@Property`: a schema, with classes as functions. */
export function schemaLiteral(
  schema: Schema & { readonly required?: boolean; readonly name?: string },
): string {
  const {
    name: _name,
    required,
    class: dto,
    items,
    properties,
    additionalProperties,
    oneOf,
    discriminator,
    unique: _u,
    references: _r,
    binary: _b,
    pattern,
    ...rest
  } = schema;
  return object({
    type: dto === undefined ? rest.type && quote(rest.type) : `() => ${dto.name}`,
    ...Object.fromEntries(
      Object.entries(rest)
        // What is required has no default.
        .filter(([key]) => key !== 'type' && !(key === 'default' && required === true))
        .map(([key, value]) => [key, value === undefined ? undefined : literal(value)]),
    ),
    pattern: pattern === undefined ? undefined : quote(pattern),
    optional: required === false ? 'true' : undefined,
    items: items && schemaLiteral(items),
    properties:
      properties &&
      object(Object.fromEntries(properties.map((each) => [each.name, schemaLiteral(each)]))),
    additionalProperties:
      additionalProperties &&
      (additionalProperties === true ? 'true' : schemaLiteral(additionalProperties)),
    oneOf:
      oneOf &&
      `[${oneOf.map((each) => (each.class === undefined ? schemaLiteral(each) : `() => ${each.class.name}`)).join(', ')}]`,
    discriminator:
      discriminator &&
      object({
        propertyName: quote(discriminator.property),
        mapping: object(
          Object.fromEntries(
            Object.entries(discriminator.mapping).map(([value, target]) => [
              value,
              `() => ${target.name}`,
            ]),
          ),
        ),
      }),
  });
}

/** The classes whose names the type of a schema contains. */
export const getClasses = (schema: Schema): DtoClass[] =>
  getParts(schema).flatMap(({ class: dto }) => dto ?? []);

/** Sorts classes so that each comes after those that it contains, as far as they do not contain one another. */
export function sortClasses(classes: readonly DtoClass[]): DtoClass[] {
  const sorted = new Set<DtoClass>();
  const visiting = new Set<DtoClass>();
  const visit = (dto: DtoClass): void => {
    if (sorted.has(dto) || visiting.has(dto)) return;
    visiting.add(dto);
    dto.properties.flatMap(getClasses).forEach(visit);
    sorted.add(dto);
  };
  classes.forEach(visit);
  return [...sorted];
}
