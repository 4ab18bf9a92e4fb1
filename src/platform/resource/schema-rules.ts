import type { Type as Class } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, ValidationTypes } from 'class-validator';
import { shorten } from '../errors/shorten.js';
import { toIntegerCheck, toNumberCheck, toRange, toStringCheck } from './scalar-rules.js';
import { isObject, isOptional, type Schema } from './schema.js';

/** How many problems of a request are reported. */
export const MAX_PROBLEMS = 10;

/** How the values of a schema are validated and converted. */
export interface Rules {
  /**
   * Adds what is wrong with a JSON value to the problems, each with its path, until there are `MAX_PROBLEMS`. An instance
   * of a DTO is skipped: it is validated on its own.
   */
  readonly check: (value: unknown, path: string, problems: string[]) => void;
  /** Converts a query parameter: text, or an array of texts. It returns what it cannot convert as it is. */
  readonly parse?: (parameter: unknown) => unknown;
  /** Converts the objects in a valid value to DTOs, and adds defaults. */
  readonly convert?: (value: unknown) => unknown;
}

/** A property of a DTO, or of an object without one. */
export interface Field {
  readonly schema: Schema;
  readonly rules: Rules;
  /** The value is validated if all are true, such as that of Nest's PartialType. */
  readonly conditions?: readonly ((object: object, value: unknown) => boolean)[];
}

/** The properties of an object by their names. */
export interface Fields {
  readonly declared: ReadonlyMap<string, Field>;
  /** Those that have other decorators of class-validator instead. */
  readonly foreign: ReadonlySet<string>;
}

const joinName = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

/** Returns the rules of the values of a schema. */
export function toRules(schema: Schema): Rules {
  const { nullable, const: constant } = schema;
  const values: readonly unknown[] | undefined = constant === undefined ? schema.enum : [constant];
  const rules = toTypeRules(schema);
  return {
    ...rules,
    check(value, path, problems) {
      if (value === null && nullable === true) return;
      if (values?.includes(value) === false)
        report(problems, path, ` must be one of ${shorten(values.map(String).join(', '))}`);
      else rules.check(value, path, problems);
    },
  };
}

function report(problems: string[], path: string, violation: string | undefined): void {
  if (violation !== undefined)
    problems.push(`${path === '' ? 'the body' : shorten(path)}${violation}`);
}

function toTypeRules(schema: Schema): Rules {
  const { type } = schema;
  if (schema.discriminator !== undefined) return toUnionRules(schema.discriminator);
  if (typeof type === 'function') return toClassRules(type);
  if (type !== undefined) return TYPES[type](schema);
  const rules = new Map(Object.entries(TYPES).map(([name, create]) => [name, create(schema)]));
  const find = (value: unknown) => rules.get(Array.isArray(value) ? 'array' : typeof value);
  const hasClass = [...rules.values()].some(({ convert }) => convert !== undefined);
  return {
    check(value, path, problems) {
      if (value !== null) find(value)?.check(value, path, problems);
    },
    ...(hasClass && { convert: (value) => find(value)?.convert?.(value) ?? value }),
  };
}

const toScalarRules = (
  findViolation: (value: unknown) => string | undefined,
  parse?: (text: string) => unknown,
): Rules => ({
  check: (value, path, problems) => report(problems, path, findViolation(value)),
  parse: parse && ((parameter) => (typeof parameter === 'string' ? parse(parameter) : parameter)),
});

const parseNumber = (pattern: RegExp) => (text: string) =>
  pattern.test(text) ? Number(text) : text;

const TYPES: Record<Extract<Schema['type'], string>, (schema: Schema) => Rules> = {
  string: (schema) => toScalarRules(toStringCheck(schema)),
  integer: (schema) => toScalarRules(toIntegerCheck(schema), parseNumber(/^-?\d+$/)),
  number: (schema) =>
    toScalarRules(toNumberCheck(schema), parseNumber(/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i)),
  boolean: () =>
    toScalarRules(
      (value) => (typeof value === 'boolean' ? undefined : ' must be true or false'),
      (text) => (text === 'true' || text === 'false' ? text === 'true' : text),
    ),
  array: toArrayRules,
  object: toObjectRules,
};

/** The rules of any JSON value. */
export const ANY: Rules = {
  check: (value, path, problems) => anyType.check(value, path, problems),
};
const anyType = toRules({});
const checkKey = toStringCheck({});

function toArrayRules(schema: Schema): Rules {
  const { minItems = 0, maxItems = Infinity, uniqueItems } = schema;
  const items = schema.items === undefined ? ANY : toRules(schema.items);
  const { convert } = items;
  return {
    check(value, path, problems) {
      if (!Array.isArray(value)) return report(problems, path, ' must be an array');
      if (value.length < minItems || value.length > maxItems)
        return report(problems, path, ` must have ${toRange(minItems, maxItems)} items`);
      const found = problems.length;
      for (const [index, item] of value.entries()) {
        if (problems.length >= MAX_PROBLEMS) return;
        items.check(item, `${path}[${index}]`, problems);
      }
      if (uniqueItems === true && problems.length === found && hasDuplicate(value))
        report(problems, path, ' must not contain equal items');
    },
    parse: (parameter) => [parameter].flat().map((text) => items.parse?.(text) ?? text),
    convert: convert && ((value) => (Array.isArray(value) ? value.map(convert) : value)),
  };
}

const hasDuplicate = (items: readonly unknown[]): boolean =>
  new Set(items.map((item) => JSON.stringify(item, sortNames))).size < items.length;

/** Makes the text of equal objects equal, whatever the order of their properties. */
const sortNames = (_name: string, value: unknown): unknown =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

const toField = (schema: Schema): Field => ({ schema, rules: toRules(schema) });

function toObjectRules(schema: Schema): Rules {
  const { minProperties = 0, maxProperties = Infinity, properties } = schema;
  const { additionalProperties = properties === undefined } = schema;
  const declared = new Map(
    Object.entries(properties ?? {}).map(([name, inner]) => [name, toField(inner)]),
  );
  const fields: Fields = { declared, foreign: new Set() };
  const others: Field =
    typeof additionalProperties === 'object'
      ? toField(additionalProperties)
      : { schema: {}, rules: ANY };
  const allowed = additionalProperties === false ? undefined : others.rules;
  const convert = (value: unknown): unknown => {
    if (!isObject(value)) return value;
    const names = new Set([...Object.keys(value), ...declared.keys()]);
    const entries = [...names].map((name) => {
      const inner = (value as Record<string, unknown>)[name];
      return [name, convertField(declared.get(name) ?? others, inner)] as const;
    });
    return Object.fromEntries(entries.filter(([, inner]) => inner !== undefined));
  };
  return {
    check(value, path, problems) {
      if (!isObject(value)) return report(problems, path, ' must be an object');
      const { length } = Object.keys(value);
      if (length < minProperties || length > maxProperties)
        report(problems, path, ` must have ${toRange(minProperties, maxProperties)} properties`);
      else checkFields(fields, allowed, value, path, problems);
    },
    ...((declared.size > 0 || others.rules.convert !== undefined) && { convert }),
  };
}

/** Returns the value of a property of a DTO: its default, if it was omitted. */
export function convertField({ schema, rules }: Field, value: unknown): unknown {
  const given = value === undefined ? structuredClone(schema.default) : value;
  return rules.convert === undefined ? given : rules.convert(given);
}

/** Returns the rules of the instances of a DTO. */
export const toClassRules = (getClass: () => Class<object>): Rules => ({
  check(value, path, problems) {
    const dto = getClass();
    if (value instanceof dto) return;
    if (isObject(value)) checkFields(getFields(dto), undefined, value, path, problems);
    else report(problems, path, ' must be an object');
  },
  convert: (value) => (isObject(value) ? plainToInstance(getClass(), value) : value),
});

function toUnionRules({ propertyName, mapping }: NonNullable<Schema['discriminator']>): Rules {
  const branches = new Map(
    Object.entries(mapping).map(([name, getClass]) => [name, toClassRules(getClass)]),
  );
  const findBranch = (value: object): Rules | undefined =>
    branches.get((value as Record<string, string>)[propertyName]!);
  const violation = ` must be one of ${[...branches.keys()].join(', ')}`;
  return {
    check(value, path, problems) {
      if (!isObject(value)) return report(problems, path, ' must be an object');
      const branch = findBranch(value);
      if (branch === undefined) report(problems, joinName(path, propertyName), violation);
      else branch.check(value, path, problems);
    },
    convert: (value) => (isObject(value) && findBranch(value)?.convert?.(value)) || value,
  };
}

/** Checks the names and the values of the properties of an object. */
function checkFields(
  { declared, foreign }: Fields,
  others: Rules | undefined,
  value: object,
  path: string,
  problems: string[],
): void {
  for (const [name, inner] of Object.entries(value)) {
    if (problems.length >= MAX_PROBLEMS) return;
    const field = declared.get(name);
    const rules = foreign.has(name) ? ANY : others;
    // Libraries treat what every object inherits, such as `constructor`, as a known property.
    const isInherited = name in Object.prototype || name === 'prototype';
    const isUnknown = field === undefined ? rules === undefined : field.schema.readOnly === true;
    const violation = checkKey(name);
    if (isInherited || (isUnknown && inner !== undefined))
      problems.push(`unknown property ${shorten(joinName(path, name))}`);
    else if (field === undefined && violation !== undefined)
      report(problems, path, `: a key${violation}`);
    else if (field === undefined) rules?.check(inner, joinName(path, name), problems);
  }
  for (const [name, field] of declared) {
    if (problems.length >= MAX_PROBLEMS) return;
    if (field.schema.readOnly !== true)
      checkField(field, value, name, joinName(path, name), problems);
  }
}

/** Checks the value of a property of an object. */
export function checkField(
  { schema, rules, conditions = [] }: Field,
  object: object,
  name: string,
  path: string,
  problems: string[],
): void {
  const value = (object as Record<string, unknown>)[name];
  if (!conditions.every((isMet) => isMet(object, value))) return;
  if (schema.readOnly === true)
    report(problems, path, value === undefined ? undefined : ' is read-only');
  else if (value !== undefined) rules.check(value, path, problems);
  else if (!isOptional(schema)) report(problems, path, ' is missing');
}

/** The name of the constraint of every declared property. */
export const VALID = 'valid';

const fieldsOfClasses = new WeakMap<Class, Fields>();

/** Returns the properties of a DTO, with the inherited ones. */
export function getFields(dto: Class): Fields {
  const known = fieldsOfClasses.get(dto);
  if (known !== undefined) return known;
  // Nest's OmitType, PickType and PartialType copy the metadata of class-validator.
  const metadata = getMetadataStorage().getTargetValidationMetadatas(dto, dto.name, false, false);
  const declared = new Map<string, Field>();
  for (const { name, propertyName, constraints } of metadata) {
    if (name !== VALID) continue;
    const conditions = metadata
      .filter((each) => each.propertyName === propertyName)
      .filter(({ type }) => type === ValidationTypes.CONDITIONAL_VALIDATION)
      .map((each) => each.constraints[0] as () => boolean);
    declared.set(propertyName, { ...(constraints[0] as Field), conditions });
  }
  const names = metadata.map(({ propertyName }) => propertyName);
  const fields = { declared, foreign: new Set(names.filter((name) => !declared.has(name))) };
  fieldsOfClasses.set(dto, fields);
  return fields;
}
