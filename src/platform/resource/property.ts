import { applyDecorators, type Type as Class } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { Exclude, Expose, Transform } from 'class-transformer';
import { ValidateBy } from 'class-validator';
import { ANY_TYPE } from '../openapi/schema-references.js';
import { FORMATS, NOT_WHITE_SPACE, toIntegerRange } from './scalar-rules.js';
import { isOptional, type Schema } from './schema.js';
import { checkField, convertField, type Field, toRules, VALID } from './schema-rules.js';

/**
 * Declares a property of a DTO once, for the validation and for the OpenAPI document. Strings and names of properties
 * contain neither NUL, which PostgreSQL cannot store, nor lone surrogates, which UTF-8 cannot encode; integers are exact,
 * from -(2^53-1) to 2^53-1; no property has a name that JavaScript objects inherit, such as `constructor`.
 *
 * @throws {TypeError} if the OpenAPI document cannot express the pattern
 */
export function Property(schema: Schema): PropertyDecorator {
  const field: Field = { schema, rules: toRules(schema) };
  const document = toDocument(schema);
  const decorators = [
    ApiProperty({
      ...document,
      type: document.type ?? ANY_TYPE,
      required: document.required ?? !isOptional(schema),
      selfRequired: !isOptional(schema),
    } as ApiPropertyOptions),
    Validate(field),
  ];
  // class-transformer visits an omitted property only if it is exposed.
  if (schema.default !== undefined) decorators.push(Expose({ toClassOnly: true }));
  if (schema.default !== undefined || field.rules.convert !== undefined)
    decorators.push(Transform(({ value }) => convertField(field, value), { toClassOnly: true }));
  if (schema.writeOnly === true) decorators.push(Exclude({ toPlainOnly: true }));
  return applyDecorators(...decorators);
}

function Validate(field: Field): PropertyDecorator {
  const findProblems = (object: object, property: string): string[] => {
    const problems: string[] = [];
    checkField(field, object, property, property, problems);
    return problems;
  };
  return ValidateBy({
    name: VALID,
    constraints: [field],
    validator: {
      validate: (_value, details) => findProblems(details!.object, details!.property).length === 0,
      defaultMessage: (details) => findProblems(details!.object, details!.property).join('; '),
    },
  });
}

/** By default, in the OpenAPI document. */
const EXAMPLES: Readonly<Record<string, unknown>> = { number: 1.5, boolean: true };

/** Returns a schema as in OpenAPI 3.0.3, in which a class is a function that returns it, as in Nest's. */
export function toDocument(schema: Schema): Record<string, unknown> {
  const { optional: _optional, notBlank = false, const: constant, ...keywords } = schema;
  const { type, nullable, items, properties = {}, additionalProperties } = keywords;
  const { minimum, exclusiveMinimum = -Infinity, maximum, exclusiveMaximum = Infinity } = keywords;
  const { pattern = notBlank ? NOT_WHITE_SPACE : undefined } = keywords;
  const values = constant === undefined ? keywords.enum : [constant];
  const isAbove = exclusiveMinimum >= (minimum ?? -Number.MAX_VALUE);
  const isBelow = exclusiveMaximum <= (maximum ?? Number.MAX_VALUE);
  const fields = Object.entries(properties);
  const required = fields.filter(([, inner]) => !isOptional(inner)).map(([name]) => name);
  const toBranch = (branch: Schema | (() => Class<object>)) =>
    toDocument(typeof branch === 'function' ? { type: branch } : branch);
  const document = {
    example: values?.[0] ?? EXAMPLES[String(type)],
    ...FORMATS[keywords.format ?? '']?.document,
    ...keywords,
    // Nest recognizes the function by its name.
    ...(typeof type === 'function' && { type: () => type() }),
    nullable: nullable === true ? true : undefined,
    // With null (OpenAPI 3.0.3, proposal 2019-10-31).
    enum: values && nullable === true ? [...new Set([...values, null])] : values,
    ...(isAbove ? { minimum: exclusiveMinimum, exclusiveMinimum: true } : { minimum }),
    ...(isBelow ? { maximum: exclusiveMaximum, exclusiveMaximum: true } : { maximum }),
    ...(type === 'integer' && toIntegerRange(schema)),
    ...(pattern && { pattern: typeof pattern === 'string' ? pattern : pattern.source }),
    items: items && toDocument(items),
    ...(fields.length > 0 && {
      properties: Object.fromEntries(fields.map(([name, inner]) => [name, toDocument(inner)])),
      required: required.length > 0 ? required : undefined,
    }),
    additionalProperties:
      typeof additionalProperties === 'object'
        ? toDocument(additionalProperties)
        : additionalProperties,
    oneOf: keywords.oneOf?.map(toBranch),
    anyOf: keywords.anyOf?.map(toBranch),
  };
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== undefined));
}
