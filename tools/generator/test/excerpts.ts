/** Excerpts of OpenAPI documents, in the styles in which they are published. */
import { parse } from 'yaml';
import type { Contract, Module, Schema } from '../model.js';
import { readContract, type Service } from '../read/contract.js';
import type { Json } from '../read/document.js';
import { planModule } from '../resources.js';

/** Makes a document of its paths, components and so on in YAML. */
export const toDocument = (yaml: string, version = '3.1.0'): Json => ({
  openapi: version,
  info: { title: 'An excerpt', version: '1.0.0' },
  ...(parse(yaml) as Json),
});

/** Plans the module of a document, as the generator does. */
export function toModule(document: Json, service?: Service): Module {
  const contract = readContract(document, 'zoo', service);
  return { ...contract, ...planModule(contract), name: 'zoo', source: 'zoo.yaml' };
}

/** The notes of a module or a contract, one for each place. */
export const getNotes = ({ notes }: Pick<Contract, 'notes'>): string[] =>
  notes
    .entries()
    .flatMap(([text, places]) =>
      places.length === 0 ? text : places.map((place) => `${place}: ${text}`),
    );

/** `implemented`, or the reason for a stub, by method and path. */
export const getResults = ({ operations, leftOut }: Module): Record<string, string> =>
  Object.fromEntries([
    ...operations.map(({ method, path, implementation }) => [
      `${method.toUpperCase()} ${path}`,
      implementation.kind === 'stub' ? implementation.reason : 'implemented',
    ]),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ]) as Record<string, string>;

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const content = (schema: Json): Json => ({ content: { 'application/json': { schema } } });

/** What {@link pets} can have instead of its standard form. */
interface Variant {
  readonly properties?: string;
  readonly required?: readonly string[];
  /** Of the list, in YAML. */
  readonly parameters?: string;
  readonly list?: Json;
  readonly item?: string;
  readonly more?: string;
}

/** A document with a list, a POST and a GET of pets. */
export function pets({ properties, required, parameters, list, item, more }: Variant = {}): Json {
  const responses = (status: number, schema: Json): Json => ({
    [status]: { description: 'OK', ...content(schema) },
  });
  const base = toDocument(more ?? '{}');
  return {
    ...base,
    paths: {
      '/pets': {
        get: {
          operationId: 'listPets',
          parameters: parse(parameters ?? '[]') as Json[],
          responses: responses(200, list ?? { type: 'array', items: ref('Pet') }),
        },
        post: {
          operationId: 'createPet',
          requestBody: { required: true, ...content(ref('Pet')) },
          responses: responses(201, ref('Pet')),
        },
      },
      [`/pets/${item ?? '{petId}'}`]: {
        get: { operationId: 'getPet', responses: responses(200, ref('Pet')) },
      },
      ...(base['paths'] as Json | undefined),
    },
    components: {
      schemas: {
        Pet: {
          type: 'object',
          required: required ?? ['name'],
          properties: parse(
            properties ?? '{ id: { type: integer, readOnly: true }, name: { type: string } }',
          ) as Json,
        },
        ...(base['components'] as { schemas?: Json } | undefined)?.schemas,
      },
    },
  };
}

/** Reads one schema in YAML, as a property of an object. */
export function readSchema(
  yaml: string,
  version = '3.1.0',
): { readonly schema: Schema; readonly notes: readonly string[] } {
  const document = {
    ...pets({ properties: `{ name: { type: string }, value: ${yaml} }` }),
    openapi: version,
  };
  const contract = readContract(document, 'zoo');
  const { classes } = contract;
  const { name: _name, required: _required, ...schema } = classes[0]!.properties[1]!;
  return { schema, notes: getNotes(contract) };
}
