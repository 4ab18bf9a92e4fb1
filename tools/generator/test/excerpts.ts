/** Excerpts of OpenAPI documents, in the styles in which they are published. */
import { parse } from 'yaml';
import type { Contract, Module, Schema } from '../model.js';
import { readContract, type Service } from '../read/contract.js';
import type { Json } from '../read/json.js';
import type { Tables } from '../plan/columns.js';
import { planModule } from '../plan/plan.js';
import { getUnsupported } from '../report.js';

/** Makes a document of its paths, components and so on in YAML. */
export const toDocument = (yaml: string): Json => ({
  openapi: '3.1.0',
  info: { title: 'An excerpt', version: '1.0.0' },
  security: [{ key: [] }],
  ...(parse(yaml) as Json),
});

const TABLES: Tables = new Map([
  ['tags', 'uuid'],
  ['owners', 'integer'],
  ['categories', 'integer'],
]);

/** Plans the module of a document, as the generator does. */
export function toModule(document: Json, service?: Service, prefix?: string): Module {
  const contract = readContract(document, 'zoo', service, prefix);
  return {
    ...contract,
    ...planModule(contract, TABLES),
    name: 'zoo',
    source: 'zoo.yaml',
  };
}

/** The notes of a module or a contract, one for each place. */
export const getNotes = ({ notes }: Pick<Contract, 'notes'>): string[] =>
  notes
    .entries()
    .flatMap(([text, places]) =>
      places.length === 0 ? text : places.map((place) => `${place}: ${text}`),
    );

/** `implemented`, also without some parameters, or the reason for a stub, by method and path. */
export const getResults = ({ operations, leftOut }: Module): Record<string, string> =>
  Object.fromEntries([
    ...operations.map((operation) => {
      const { method, path, implementation } = operation;
      const names = getUnsupported(operation).join(', ');
      const without = names === '' ? 'implemented' : `implemented without ${names}`;
      const result = implementation.kind === 'stub' ? implementation.reason : without;
      return [`${method.toUpperCase()} ${path}`, result];
    }),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ]) as Record<string, string>;

/** `content` of a body or a response in YAML. */
export const toContent = (schema: string, type = 'application/json'): string =>
  `content: { ${type}: { schema: ${schema} } }`;

/** `responses` in YAML. */
export const toResponses = (schema: string, status = 200): string =>
  `responses: { ${status}: { description: OK, ${toContent(schema)} } }`;

const PET = `{ $ref: '#/components/schemas/Pet' }`;

/** A document with a list, a POST and a GET of pets. What it has instead of its standard form, or besides it, is YAML. */
export const pets = ({
  properties = '{ id: { type: integer, readOnly: true }, name: { type: string } }',
  required = 'name',
  parameters = '[]',
  list = `{ type: array, items: ${PET} }`,
  item = '{petId}',
  operations = '',
  paths = '',
  schemas = '',
  collection = '/pets',
  mark = 'x-resource: true',
} = {}): Json =>
  toDocument(`
paths:
  ${collection}:
    get: { operationId: listPets, parameters: ${parameters}, ${toResponses(list)} }
    post:
      operationId: createPet
      ${mark}
      requestBody: { required: true, ${toContent(PET)} }
      ${toResponses(PET, 201)}
  ${collection}/${item}: { get: { operationId: getPet, ${toResponses(PET)} }, ${operations} }
  ${paths}
components:
  schemas: { Pet: { type: object, required: [${required}], properties: ${properties} }, ${schemas} }
`);

/** Reads one schema in YAML, as a property of an object. */
export function readSchema(
  yaml: string,
  schemas = '',
  openapi = '3.1.0',
): { readonly schema: Schema; readonly notes: readonly string[] } {
  const properties = `{ name: { type: string }, value: ${yaml} }`;
  const contract = readContract({ ...pets({ properties, schemas }), openapi }, 'zoo');
  const { name: _name, required: _required, ...schema } = contract.classes[0]!.properties[1]!;
  return { schema, notes: getNotes(contract) };
}
