/** Converts Swagger 2.0 to OpenAPI 3.0. */
import { upgradeFromTwoToThree } from '@scalar/openapi-upgrader/2.0-to-3.0';
import { entries, get, isObject, items, type Json, resolve } from './json.js';

/**
 * Returns a document of Swagger 2.0 as OpenAPI 3.0, and others as they are.
 *
 * @throws {Error} if a reference to a part of the document cannot be converted
 */
export function toOpenApi(root: Json): Json {
  if (root['swagger'] !== '2.0') return root;
  const { parameters: _parameters, responses: _responses, ...rest } = root;
  const paths = mapObjects(root['paths'], (item) => toPathItem(root, item));
  // The library changes what it gets.
  const document = upgradeFromTwoToThree(structuredClone({ ...rest, paths })) as Json;
  const lost = findReferences(document).find(($ref) => resolve(document, { $ref }) === undefined);
  if (lost === undefined) return document;
  throw new Error(
    `The reference ${lost} of Swagger 2.0 cannot be converted: move what it is to definitions.`,
  );
}

/** Puts what operations share into each, because the library loses a part of that. */
const toPathItem = (root: Json, { parameters, ...operations }: Json): Json =>
  mapObjects(operations, (operation) => {
    const all = [...items(parameters), ...items(operation['parameters'])]
      .map((each) => resolve(root, each))
      .filter(isObject);
    const byKey = new Map(all.map((each) => [toKey(each), toParameter(each)]));
    const responses = mapObjects(operation['responses'], (each) => resolve(root, each) as Json);
    const isFile = Object.values(responses).some(
      (each) => get(get(each, 'schema'), 'type') === 'file',
    );
    const produces = toTypes(operation['produces'] ?? root['produces'], 'application/json');
    const bytes = produces.filter((type) => !/json/.test(type));
    return {
      ...operation,
      parameters: [...byKey.values()],
      responses,
      consumes: toTypes(operation['consumes'] ?? root['consumes'], 'application/json'),
      produces: isFile ? toTypes(bytes, 'application/octet-stream') : produces,
    };
  });

/** Maps the objects of an object; what is not an object is left out, as extensions are. */
const mapObjects = (value: unknown, map: (each: Json) => Json): Json =>
  Object.fromEntries(
    entries(value).flatMap(([key, each]) => (isObject(each) ? [[key, map(each)]] : [])),
  );

/** An operation has one body, and a parameter replaces one of its path with the same name. */
const toKey = ({ in: kind, name }: Json): string =>
  kind === 'body' ? kind : `${String(kind)} ${String(name)}`;

/** An array is one text, separated by commas, unless the document says something else. OpenAPI 3 has no tabs. */
function toParameter(parameter: Json): Json {
  if (parameter['type'] !== 'array') return parameter;
  const { collectionFormat = 'csv' } = parameter;
  return { ...parameter, collectionFormat: collectionFormat === 'tsv' ? 'ssv' : collectionFormat };
}

/** The media types of an operation. A list without one only hides those of the document. */
function toTypes(value: unknown, fallback: string): string[] {
  const types = [value ?? []].flat().map(String);
  return types.length > 0 ? types : [fallback];
}

function findReferences(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(findReferences);
  if (!isObject(value)) return [];
  const { $ref } = value;
  return typeof $ref === 'string' && $ref.startsWith('#/')
    ? [$ref]
    : Object.values(value).flatMap(findReferences);
}
