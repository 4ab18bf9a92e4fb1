import type { OpenAPIObject } from '@nestjs/swagger';
import type { Operation } from './standard-responses.js';

type SchemaOrReference = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string];
type Schema = Exclude<SchemaOrReference, { $ref: string }>;

/** Closes the schemas of a request body, at every depth, as the validation rejects unknown properties. */
export function closeRequestBody({ requestBody }: Operation, { components }: OpenAPIObject): void {
  if (requestBody === undefined || '$ref' in requestBody) return;
  const closed = new Set<Schema>();
  const close = (reference: SchemaOrReference | undefined): void => {
    const schema =
      reference !== undefined && '$ref' in reference
        ? components?.schemas?.[reference.$ref.split('/').at(-1)!]
        : reference;
    if (schema === undefined || '$ref' in schema || closed.has(schema)) return;
    closed.add(schema);
    // A map has no properties, but the schema of its values.
    if (schema.properties !== undefined) schema.additionalProperties ??= false;
    Object.values(schema.properties ?? {}).forEach(close);
    // Several closed schemas would reject each other's properties.
    if (schema.allOf?.length === 1) close(schema.allOf[0]);
    [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].forEach(close);
    close(schema.items);
    if (typeof schema.additionalProperties === 'object') close(schema.additionalProperties);
  };
  for (const { schema } of Object.values(requestBody.content)) close(schema);
}
