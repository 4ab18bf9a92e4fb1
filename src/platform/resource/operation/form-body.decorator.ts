import { ApiBody, ApiConsumes } from '@nestjs/swagger';
import { ApiError } from '../../errors/api-error.js';
import { shorten } from '../../errors/shorten.js';
import { AcceptForm, FORM_CONTENT_TYPE } from '../../http/body/accepted-body.js';
import { type FormField, MAX_DEPTH, requireDepth } from '../../http/body/parsed-body.js';
import { RequestParam } from '../../http/request-param.js';
import { toDocument } from '../../validation/property.js';
import { isObject, type Schema } from '../../validation/schema.js';
import { getDto, getFields, joinName, parseParameter } from '../../validation/schema-rules.js';
import { validateJson } from '../../validation/validation.pipe.js';
import { type JsonBodyOptions, takeReadOnly } from './json-body.decorator.js';

/**
 * Makes an operation accept a form (`application/x-www-form-urlencoded`) instead of JSON, passes it to the handler as the
 * object of a schema, and declares it in the OpenAPI document. A body without bytes is a form without fields.
 *
 * Texts become numbers and booleans as those of a query do, and never null. An object is `price[amount]=5` or, as OpenAPI
 * specifies by default, JSON; an array `tag=a&tag=b`, `tag[]=a&tag[]=b`, or `tag[0]=a&tag[1]=b`.
 *
 * @throws {ApiError} VALIDATION_FAILED if it is invalid
 */
export function FormBody(
  schema: Schema,
  {
    description,
    repeatsReadOnly = false,
  }: Pick<JsonBodyOptions, 'description' | 'repeatsReadOnly'> = {},
): ParameterDecorator {
  return RequestParam(
    (request) => {
      const form = toObject(schema, (request.body ?? []) as FormField[], '', 0);
      return validateJson(schema, repeatsReadOnly ? takeReadOnly(schema, request, form) : form);
    },
    AcceptForm(true),
    ApiConsumes(FORM_CONTENT_TYPE),
    ApiBody({ description, required: true, schema: toDocument(schema) }),
  );
}

/**
 * Converts fields to the value of a schema, which is not validated.
 *
 * @param depth how many keys of their paths lead to the value
 */
function toValue(
  schema: Schema,
  fields: readonly FormField[],
  place: string,
  depth: number,
): unknown {
  if (schema.type === 'array') return toArray(schema.items ?? {}, fields, place, depth);
  const [field, ...others] = fields;
  if (fields.every(({ path }) => path.length > depth))
    return toObject(schema, fields, place, depth);
  if (others.length > 0) throw invalid(place, 'must have one value');
  return toScalar(schema, field!.text, depth);
}

function toArray(
  items: Schema,
  fields: readonly FormField[],
  place: string,
  depth: number,
): unknown[] {
  const groups = Map.groupBy(fields, ({ path }) => path[depth]);
  const [key] = groups.keys();
  const end = key === '' ? depth + 1 : depth;
  if (groups.size === 1 && fields.every(({ path }) => path.length === end))
    return fields.map(({ text }) => toScalar(items, text, depth + 1));
  return Array.from({ length: groups.size }, (_, index) => {
    const item = groups.get(String(index));
    if (item === undefined)
      throw invalid(place, `must be repeated, or have the indexes 0 to ${groups.size - 1}`);
    return toValue(items, item, `${place}[${index}]`, depth + 1);
  });
}

function toObject(
  schema: Schema,
  fields: readonly FormField[],
  place: string,
  depth: number,
): object {
  const { propertyName = '' } = schema.discriminator ?? {};
  const selector = fields.find(({ path }) => path.slice(depth).join() === propertyName);
  const dto = getDto(schema, { [propertyName]: selector?.text });
  const { properties = {}, additionalProperties: others } = schema;
  const declared =
    dto === undefined ? new Map(Object.entries(properties)) : getFields(dto).declared;
  const groups = Map.groupBy(fields, ({ path }) => {
    const whole = toName(path.slice(depth));
    return declared.has(whole) ? whole : path[depth]!;
  });
  const entries = [...groups].map(([name, own]) => {
    const isWhole = name !== own[0]!.path[depth];
    const property = declared.get(name) ?? (typeof others === 'object' ? others : {});
    const end = isWhole ? own[0]!.path.length : depth + 1;
    return [name, toValue(property, own, joinName(place, name), end)];
  });
  return Object.fromEntries(entries) as object;
}

/** The name that a contract may give to a property, such as `tags[]`. */
const toName = ([first, ...keys]: readonly string[]): string =>
  `${first}${keys.map((key) => `[${key}]`).join('')}`;

/** What is not as the schema says stays text, which the validation rejects. */
function toScalar(schema: Schema, text: string, depth: number): unknown {
  const { type, properties, discriminator } = schema;
  const isScalar = typeof type !== 'function' && type !== 'object';
  if (isScalar && (properties ?? discriminator) === undefined) return parseParameter(schema, text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  requireDepth(value, MAX_DEPTH - depth);
  return isObject(value) ? value : text;
}

const invalid = (place: string, problem: string): ApiError =>
  new ApiError('VALIDATION_FAILED', `${shorten(place)} ${problem}.`);
