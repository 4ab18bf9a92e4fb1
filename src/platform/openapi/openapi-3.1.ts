import type { OpenAPIObject } from '@nestjs/swagger';

/** The keywords whose values are data, not schemas. */
const DATA = new Set(['default', 'enum', 'example', 'examples']);

/**
 * Converts a document from OpenAPI 3.0 to 3.1, in which null is a type. Of the other differences, none occurs
 * in our documents. Nest's own conversion changes the schemas in the metadata of decorators, and so every
 * document that is created later (`convertNullableToOas31` of @nestjs/swagger 12.0).
 */
export function toOpenApi31(document: OpenAPIObject): OpenAPIObject {
  return { ...(convert(document) as OpenAPIObject), openapi: '3.1.1' };
}

function convert(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert);
  if (typeof value !== 'object' || value === null) return value;
  const converted = Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, DATA.has(key) ? item : convert(item)]),
  ) as Record<string, unknown>;
  const { nullable, ...schema } = converted;
  // It could also be the name of a property, whose value is a schema.
  if (typeof nullable !== 'boolean') return converted;
  if (!nullable) return schema;
  return schema['type'] === undefined || schema['allOf'] !== undefined
    ? { anyOf: [schema, { type: 'null' }] }
    : { ...schema, type: [schema['type'], 'null'] };
}
