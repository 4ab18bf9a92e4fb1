import type { Type as Class } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, ValidationTypes } from 'class-validator';
import { shorten } from '../errors/shorten.js';
import {
  findNumberViolation,
  findSizeViolation,
  findStringViolation,
} from './scalar-violations.js';
import { isObject, isOptional, type Schema } from './schema.js';

/** The maximum number of problems that a response reports. */
export const MAX_PROBLEMS = 10;

/** Validates a value. Returns at most `MAX_PROBLEMS` messages, which begin with the path of the value or of one in it. */
export function findProblems(schema: Schema, value: unknown, path = ''): string[] {
  const problems: string[] = [];
  addProblems(schema, value, path, problems);
  return problems.slice(0, MAX_PROBLEMS);
}

/** Adds the problems of a value, and stops soon after `MAX_PROBLEMS`, so that a large value is not read to its end. */
function addProblems(schema: Schema, value: unknown, path: string, problems: string[]): void {
  if (problems.length >= MAX_PROBLEMS) return;
  if (value === undefined && !isOptional(schema)) problems.push(toProblem(path, ' is missing'));
  if (value === undefined || (value === null && schema.nullable === true)) return;
  // A valid text that `@Type(() => Date)` has converted.
  if (value instanceof Date) return;
  const violation = findViolation(schema, value);
  if (violation !== undefined) problems.push(toProblem(path, violation));
  else if (Array.isArray(value)) checkItems(schema, value, path, problems);
  else if (isObject(value)) {
    const { discriminator, properties = {} } = schema;
    const { additionalProperties: others = schema.properties === undefined } = schema;
    const dto = getDto(schema, value);
    if (dto !== undefined) {
      checkFields(getFields(dto).declared, false, value, path, problems);
    } else if (discriminator !== undefined) {
      const names = Object.keys(discriminator.mapping).join(', ');
      const property = joinName(path, discriminator.propertyName);
      problems.push(toProblem(property, ` must be one of ${names}`));
    } else {
      checkFields(new Map(Object.entries(properties)), others, value, path, problems);
    }
  }
}

const toProblem = (path: string, violation: string): string =>
  `${path === '' ? 'the body' : shorten(path)}${violation}`;

/** Returns the path of a property of the object at a path. */
export const joinName = (path: string, name: string): string =>
  path === '' ? name : `${path}.${name}`;

/** Returns the class of an object: the type of its schema, or the class that the discriminator selects. */
export function getDto({ type, discriminator }: Schema, value: object): Class<object> | undefined {
  if (discriminator === undefined) return typeof type === 'function' ? type() : undefined;
  const name = (value as Record<string, unknown>)[discriminator.propertyName];
  const isKnown = typeof name === 'string' && Object.hasOwn(discriminator.mapping, name);
  return isKnown ? discriminator.mapping[name]!() : undefined;
}

/** Finds what is wrong with a value itself, without its items or properties. */
function findViolation(schema: Schema, value: unknown): string | undefined {
  const { const: constant, minItems, maxItems, minProperties, maxProperties } = schema;
  const values: readonly unknown[] | undefined = constant === undefined ? schema.enum : [constant];
  if (values?.includes(value) === false)
    return ` must be one of ${shorten(values.map(String).join(', '))}`;
  const isDto = typeof schema.type === 'function' || schema.discriminator !== undefined;
  const kind = Array.isArray(value) ? 'array' : typeof value;
  switch (isDto ? 'object' : (schema.type ?? (value !== null && kind))) {
    case 'string':
      return findStringViolation(schema, value);
    case 'integer':
    case 'number':
      return findNumberViolation(schema, value);
    case 'boolean':
      return typeof value === 'boolean' ? undefined : ' must be true or false';
    case 'array':
      if (!Array.isArray(value)) return ' must be an array';
      return findSizeViolation('have', value.length, minItems, maxItems, 'items');
    case 'object': {
      if (!isObject(value)) return ' must be an object';
      const { length } = Object.keys(value);
      return findSizeViolation('have', length, minProperties, maxProperties, 'properties');
    }
    default:
      return undefined;
  }
}

function checkItems(schema: Schema, values: unknown[], path: string, problems: string[]): void {
  const { items = {}, uniqueItems = false } = schema;
  for (const [index, item] of values.entries())
    addProblems(items, item, `${path}[${index}]`, problems);
  if (!uniqueItems) return;
  const texts = values.map((item) => JSON.stringify(item, sortProperties));
  if (new Set(texts).size < values.length)
    problems.push(toProblem(path, ' must not contain equal items'));
}

/** Gives equal objects the same order of properties, for `JSON.stringify`. */
export function sortProperties(_name: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** @param others the schema of undeclared properties, or whether they are allowed */
function checkFields(
  declared: ReadonlyMap<string, Schema>,
  others: Schema | boolean,
  value: object,
  path: string,
  problems: string[],
): void {
  const schemaOfOthers = typeof others === 'object' ? others : {};
  for (const [name, inner] of Object.entries(value)) {
    if (problems.length >= MAX_PROBLEMS) return;
    const schema = declared.get(name);
    // Libraries take a name that every object inherits, such as `constructor`, for a declared property.
    const isInherited = name in Object.prototype || name === 'prototype';
    const isUnknown = schema === undefined ? others === false : schema.readOnly === true;
    if (isInherited || (isUnknown && inner !== undefined))
      problems.push(`unknown property ${shorten(joinName(path, name))}`);
    else if (schema === undefined && inner !== undefined) {
      const violation = findStringViolation({}, name);
      if (violation !== undefined) problems.push(toProblem(path, `: a key${violation}`));
      else addProblems(schemaOfOthers, inner, joinName(path, name), problems);
    }
  }
  for (const [name, schema] of declared) {
    const inner = (value as Record<string, unknown>)[name];
    if (schema.readOnly !== true) addProblems(schema, inner, joinName(path, name), problems);
  }
}

const NUMBERS: Readonly<Record<string, RegExp>> = {
  integer: /^-?\d+$/,
  number: /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i,
};

/** Converts a parameter, which is a text or an array of texts, to its type. Returns an invalid text unchanged. */
export function parseParameter({ type, items = {} }: Schema, parameter: unknown): unknown {
  if (type === 'array') return [parameter].flat().map((text) => parseParameter(items, text));
  if (typeof parameter !== 'string') return parameter;
  if (type === 'boolean' && /^(true|false)$/.test(parameter)) return parameter === 'true';
  return NUMBERS[String(type)]?.test(parameter) === true ? Number(parameter) : parameter;
}

/** Converts the objects in a valid value to DTOs, and replaces omitted values by their defaults. */
export function convert(schema: Schema, value: unknown = structuredClone(schema.default)): unknown {
  const { items, properties, additionalProperties } = schema;
  if (Array.isArray(value))
    return items === undefined ? value : value.map((item) => convert(items, item));
  if (!isObject(value)) return value;
  const dto = getDto(schema, value);
  if (dto !== undefined) return plainToInstance(dto, value);
  if ((properties ?? additionalProperties) === undefined) return value;
  const others = typeof additionalProperties === 'object' ? additionalProperties : {};
  const names = new Set([...Object.keys(properties ?? {}), ...Object.keys(value)]);
  const entries = [...names].map((name) => [
    name,
    convert(properties?.[name] ?? others, (value as Record<string, unknown>)[name]),
  ]);
  return Object.fromEntries(entries.filter(([, inner]) => inner !== undefined));
}

/**
 * The name of the constraint of class-validator that holds the schema of a property. The schemas are in the metadata of
 * class-validator, because Nest's OmitType, PickType, PartialType and IntersectionType copy it to derived classes.
 */
export const SCHEMA_CONSTRAINT = 'valid';

/** The schema of a property without `@Property`, which only decorators of class-validator check. */
export const WITHOUT_SCHEMA: Schema = { optional: true };

interface Fields {
  readonly declared: ReadonlyMap<string, Schema>;
  /** Whether the class has decorators of class-validator besides `@Property`. */
  readonly hasOtherDecorators: boolean;
}

const fieldsOfClasses = new WeakMap<Class, Fields>();

/**
 * Returns the schemas of the properties of a DTO, inherited ones included.
 *
 * @throws {TypeError} if Nest's PartialType has made the properties of `@Property` optional: their defaults would stay
 */
export function getFields(dto: Class): Fields {
  const known = fieldsOfClasses.get(dto);
  if (known !== undefined) return known;
  const metadata = getMetadataStorage().getTargetValidationMetadatas(dto, dto.name, false, false);
  const declared = new Map<string, Schema>();
  const owners = new Map<string, unknown>();
  for (const { name, propertyName, constraints } of metadata) {
    if (name !== SCHEMA_CONSTRAINT) continue;
    declared.set(propertyName, constraints[0] as Schema);
    owners.set(propertyName, constraints[1]);
  }
  const others = metadata.filter(({ name }) => name !== SCHEMA_CONSTRAINT);
  for (const { type, propertyName, target } of others) {
    const schema = declared.get(propertyName) ?? WITHOUT_SCHEMA;
    const isConditional =
      type === ValidationTypes.CONDITIONAL_VALIDATION && schema !== WITHOUT_SCHEMA;
    if (isConditional && owners.get(propertyName) !== target)
      throw new TypeError(
        `${dto.name} is derived with PartialType from a class with @Property, whose defaults it keeps: use MergePatch instead.`,
      );
    declared.set(propertyName, isConditional ? { ...schema, optional: true } : schema);
  }
  const fields = { declared, hasOtherDecorators: others.length > 0 };
  fieldsOfClasses.set(dto, fields);
  return fields;
}
