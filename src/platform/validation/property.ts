import { applyDecorators, type Type as Class } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { Exclude, Expose, Transform } from 'class-transformer';
import { ValidateBy, type ValidationArguments } from 'class-validator';
import { NOT_BLANK, PLAIN_TEXT, toTextExample } from './plain-text.js';
import { FORMATS, getIntegerFormat, toLimits, toRegExp } from './scalar-violations.js';
import { isOptional, type Schema } from './schema.js';
import { convert, findProblems, SCHEMA_CONSTRAINT } from './schema-rules.js';

/**
 * Declares a property of a DTO, both for the validation and for the OpenAPI document. Whatever the schema says, the
 * validation rejects NUL, which PostgreSQL cannot store, and lone surrogates, which UTF-8 cannot encode; integers outside of
 * ±(2^53-1), which are not exact; and names that JavaScript objects inherit, such as `constructor`.
 *
 * @throws {TypeError} if the OpenAPI document cannot express the pattern
 */
export function Property(schema: Schema): PropertyDecorator {
  const document = toDocument(schema);
  // The check of the object that has a read-only property rejects it as unknown.
  const findViolations = ({ property, value }: ValidationArguments): string[] =>
    schema.readOnly === true ? [] : findProblems(schema, value, property);
  const decorators = [
    ApiProperty({
      ...document,
      type: document.type ?? ANY_TYPE,
      required: document.required ?? !isOptional(schema),
      selfRequired: !isOptional(schema),
    } as ApiPropertyOptions),
    ((target, name) =>
      ValidateBy({
        name: SCHEMA_CONSTRAINT,
        constraints: [schema, target.constructor],
        validator: {
          validate: (_value, details) => findViolations(details!).length === 0,
          defaultMessage: (details) => findViolations(details!).join('; '),
        },
      })(target, name)) as PropertyDecorator,
  ];
  // class-transformer visits an omitted property only if it is exposed.
  if (schema.default !== undefined) decorators.push(Expose({ toClassOnly: true }));
  if (schema.default !== undefined || !SCALARS.has(schema.type))
    decorators.push(Transform(({ value }) => convert(schema, value), { toClassOnly: true }));
  if (schema.writeOnly === true) decorators.push(Exclude({ toPlainOnly: true }));
  return applyDecorators(...decorators);
}

/** Stands for a missing type in `@ApiProperty`, which would document the TypeScript type of the property instead. */
export const ANY_TYPE = 'any JSON value';

/** The types whose values need no conversion. */
const SCALARS: ReadonlySet<unknown> = new Set(['string', 'integer', 'number', 'boolean']);

/** The default examples in the OpenAPI document, by type. */
const EXAMPLES: Readonly<Record<string, unknown>> = { number: 1.5, boolean: true };

/** Whether the document has a keyword with this value: an infinite limit is no limit. */
const isPublished = (value: unknown): boolean =>
  value !== undefined && value !== Infinity && value !== -Infinity;

/** A schema that accepts only null (OpenAPI 3.0.3, proposal 2019-10-31 "Clarify Semantics of nullable"). */
const ONLY_NULL = { type: 'object', nullable: true, enum: [null] };

/** Converts a schema to OpenAPI 3.0.3. References stay functions that return a class, until `resolveClasses`. */
export function toDocument(schema: Schema): Record<string, unknown> {
  const { optional: _optional, notBlank, const: constant, pattern, ...keywords } = schema;
  const { type, nullable, items, properties = {}, additionalProperties } = keywords;
  if (typeof type === 'function') {
    const { type: $ref, nullable: _nullable, ...others } = keywords;
    if (nullable === true) return { ...others, anyOf: [{ $ref }, ONLY_NULL] };
    return Object.keys(others).length === 0 ? { $ref } : { ...others, allOf: [{ $ref }] };
  }
  const isExpressible = pattern === undefined || /^u?$/.test(toRegExp(pattern).flags);
  if (!isExpressible || (notBlank === true && pattern !== undefined))
    throw new TypeError('A pattern cannot have flags other than u, or be combined with notBlank.');
  const { check: _check, length, example, ...format } = FORMATS[keywords.format ?? ''] ?? {};
  const values = constant === undefined ? keywords.enum : [constant];
  const limits = toLimits(schema);
  const isText =
    type === 'string' && (values ?? pattern ?? FORMATS[keywords.format ?? '']) === undefined;
  const names = Object.keys(properties);
  const required = names.filter((name) => !isOptional(properties[name]!));
  const toBranch = (branch: Schema | (() => Class<object>)) =>
    toDocument(typeof branch === 'function' ? { type: branch } : branch);
  // If neither example is valid, Swagger UI generates one within the limits.
  const valid = [example, EXAMPLES[String(type)]].find(
    (each) => each !== undefined && findProblems(schema, each, '').length === 0,
  );
  const document = {
    example: values?.[0] ?? valid,
    ...(isText && {
      pattern: PLAIN_TEXT,
      example: toTextExample(schema.minLength, schema.maxLength),
    }),
    maxLength: length,
    ...format,
    ...keywords,
    // OpenAPI 3.0.3 allows `nullable` only beside a type, and requires null in the enum.
    nullable: nullable === true && type !== undefined ? true : undefined,
    enum: values && nullable === true ? [...new Set([...values, null])] : values,
    ...(type === 'integer' && { format: keywords.format ?? getIntegerFormat(limits) }),
    minimum: limits.minimum,
    exclusiveMinimum: limits.exclusiveMinimum || undefined,
    maximum: limits.maximum,
    exclusiveMaximum: limits.exclusiveMaximum || undefined,
    ...(notBlank === true && { pattern: NOT_BLANK }),
    ...(pattern !== undefined && { pattern: toRegExp(pattern).source }),
    items: items && toDocument(items),
    ...(names.length > 0 && {
      properties: Object.fromEntries(names.map((name) => [name, toDocument(properties[name]!)])),
      required: required.length > 0 ? required : undefined,
    }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: toDocument(additionalProperties),
    }),
    oneOf: keywords.oneOf?.map(toBranch),
    anyOf: keywords.anyOf?.map(toBranch),
  };
  return Object.fromEntries(Object.entries(document).filter(([, value]) => isPublished(value)));
}
