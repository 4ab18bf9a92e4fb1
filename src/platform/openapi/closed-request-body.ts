import type { OpenAPIObject } from '@nestjs/swagger';
import type { Operation } from './standard-responses.js';

type Schemas = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>;
type Schema = Exclude<Schemas[string], { $ref: string }>;

const REFERENCE = /(?<="#\/components\/schemas\/)[^"]+(?=")/g;

/**
 * Adds `additionalProperties: false` to the schemas of request bodies, at every depth, because the validation rejects unknown
 * properties. If responses refer to the same component, requests get a copy, such as `PetRequest` of `Pet`: clients must expect
 * new properties in responses.
 */
export function closeRequestBodies({ components }: OpenAPIObject, operations: Operation[]): void {
  const schemas = components?.schemas ?? {};
  const bodies = operations.map(({ requestBody }) => requestBody);
  const requestNames = findNames(schemas, bodies);
  const responses = operations.map((operation) => operation.responses);
  const responseNames = findNames(schemas, responses);
  const copies = new Map<string, string>();
  for (const name of requestNames) {
    let copy = `${name}Request`;
    while (copy in schemas) copy += '_';
    if (responseNames.has(name)) copies.set(name, copy);
  }
  const toRequest = <Part>(part: Part): Part =>
    JSON.parse(
      JSON.stringify(part).replaceAll(REFERENCE, (name) => copies.get(name) ?? name),
    ) as Part;
  for (const name of requestNames) schemas[copies.get(name) ?? name] = toRequest(schemas[name]!);
  for (const operation of operations) {
    if (operation.requestBody === undefined || '$ref' in operation.requestBody) continue;
    operation.requestBody = toRequest(operation.requestBody);
    for (const { schema } of Object.values(operation.requestBody.content)) close(schema, schemas);
  }
}

/** Returns the names of the components that a part of the document refers to, directly or through others. */
function findNames(schemas: Schemas, part: unknown, found = new Set<string>()): Set<string> {
  for (const name of (JSON.stringify(part) ?? '').match(REFERENCE) ?? []) {
    if (found.has(name) || schemas[name] === undefined) continue;
    findNames(schemas, schemas[name], found.add(name));
  }
  return found;
}

function close(
  reference: Schemas[string] | undefined,
  schemas: Schemas,
  closed = new Set<Schema>(),
): void {
  const schema =
    reference !== undefined && '$ref' in reference
      ? schemas[reference.$ref.split('/').at(-1)!]
      : reference;
  if (schema === undefined || '$ref' in schema || closed.has(schema)) return;
  closed.add(schema);
  // An object without properties is a map, which stays open.
  if (schema.properties !== undefined) schema.additionalProperties ??= false;
  const { properties = {}, allOf = [], anyOf = [], oneOf = [], items } = schema;
  const { additionalProperties: others } = schema;
  // The schemas of an `allOf` stay open if there are several: each would reject the properties of the others.
  const inner = [...Object.values(properties), ...(allOf.length === 1 ? allOf : []), ...anyOf];
  for (const each of [...inner, ...oneOf, items, typeof others === 'object' ? others : undefined])
    close(each, schemas, closed);
}
