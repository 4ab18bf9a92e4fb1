import { parse } from 'yaml';
import { get, type Json } from '../read/json.js';
import { readContract } from '../read/contract.js';
import { toOpenApi } from '../read/swagger.js';
import type { Module, Operation } from '../model.js';
import { getNotes, getResults, toModule } from './excerpts.js';

/** A document in the styles of the Swagger petstore, of Docker and of Kubernetes. */
const toSwagger = (yaml: string): Json =>
  toOpenApi({
    swagger: '2.0',
    info: { title: 'An excerpt', version: '1.0.0' },
    consumes: ['application/json'],
    produces: ['application/json'],
    ...(parse(yaml) as Json),
  });

const PET = `{ $ref: '#/definitions/Pet' }`;
const PETS = `
basePath: /v2
securityDefinitions: { api_key: { type: apiKey, name: api_key, in: header } }
paths:
  /pet:
    post:
      operationId: addPet
      parameters: [{ $ref: '#/parameters/pet' }]
      responses: { 200: { $ref: '#/responses/pet' } }
  /pet/findByStatus:
    get:
      operationId: findPets
      parameters:
        - { name: status, in: query, type: array, items: { type: string }, collectionFormat: multi }
        - { name: tags, in: query, type: array, items: { type: string } }
        - { name: names, in: query, type: array, items: { type: string }, collectionFormat: tsv }
      responses: { 200: { description: OK, schema: { type: array, items: ${PET} } } }
  /pet/{petId}:
    x-note: ~
    parameters: [{ name: petId, in: path, required: true, type: integer, format: int64 }]
    get: { operationId: getPet, responses: { 200: { $ref: '#/responses/pet' } } }
    delete: { operationId: deletePet, responses: { 204: { description: OK } } }
parameters:
  pet: { name: body, in: body, required: true, schema: ${PET} }
responses:
  pet: { description: OK, schema: ${PET} }
definitions:
  Pet:
    type: object
    required: [name]
    properties:
      id: { type: integer, format: int64, readOnly: true }
      name: { type: string }
      status: { type: string, x-nullable: true }
      discriminator: { type: string }
`;

/** A POST whose body is a form of one property, and a read of what it stores. */
const toForms = (parameter: string, consumes = 'application/x-www-form-urlencoded'): Module =>
  toModule(
    toSwagger(`
paths:
  /forms:
    post:
      x-resource: true
      consumes: [${consumes}]
      parameters: [{ $ref: '#/parameters/value' }]
      responses: { 201: { description: OK, schema: { $ref: '#/definitions/Form' } } }
  /forms/{id}:
    parameters: [{ name: id, in: path, required: true, type: integer }]
    get: { responses: { 200: { description: OK, schema: { $ref: '#/definitions/Form' } } } }
parameters: { value: { name: value, in: formData, ${parameter} } }
definitions: { Form: { type: object, properties: { id: { type: integer }, value: {} } } }
`),
  );

/** Reads the one operation of a path, in YAML. */
const readPath = (item: string, rest = ''): Operation =>
  readContract(toSwagger(`paths: { /pets: { ${item} } }\n${rest}`), 'zoo').operations[0]!;

describe('a document of Swagger 2.0', () => {
  it('is implemented as one of OpenAPI 3', () => {
    const module = toModule(toSwagger(PETS));
    expect(getResults(module)).toEqual({
      'POST /pet': 'implemented',
      'GET /pet/findByStatus': 'implemented without ?tags, ?names',
      'GET /pet/{petId}': 'implemented',
      'DELETE /pet/{petId}': 'implemented',
    });
    const [pet] = module.classes;
    expect(pet!.properties).toMatchObject([
      { name: 'id', type: 'integer', readOnly: true },
      { name: 'name', required: true },
      { name: 'status', nullable: true },
      { name: 'discriminator', type: 'string' },
    ]);
    expect(getNotes(module)).toContain(
      'Paths are below /v1, not below those of the servers of the contract: --prefix changes that.',
    );
  });

  it('has a discriminator by the names of the definitions that extend one, or by their own values', () => {
    const part = '{ type: object, properties: { name: { type: string } } }';
    const all = `allOf: [{ $ref: '#/definitions/Animal' }, ${part}]`;
    const { components } = toSwagger(`
paths: {}
definitions:
  Animal: { type: object, discriminator: kind, required: [kind], properties: { kind: { type: string } } }
  Cat: { ${all} }
  Dog: { x-discriminator-value: dog, ${all} }
`);
    expect(get(get(get(components, 'schemas'), 'Animal'), 'discriminator')).toEqual({
      propertyName: 'kind',
      mapping: { dog: '#/components/schemas/Dog' },
    });
  });

  it.each([
    ['type: string', 'implemented'],
    ['type: array, items: { type: string }, collectionFormat: multi', 'implemented'],
    ...['', ', collectionFormat: csv', ', collectionFormat: pipes', ', collectionFormat: tsv'].map(
      (style): [string, string] => [
        `type: array, items: { type: string }${style}`,
        'the form encodes value in a style of its own',
      ],
    ),
  ])('has forms, even behind a reference: { %s } is %s', (parameter, result) => {
    expect(getResults(toForms(parameter))['POST /forms']).toBe(result);
  });

  it('has files, which are not stored', () => {
    const module = toForms('type: file', 'multipart/form-data');
    expect(getResults(module)['POST /forms']).toBe('the body is multipart/form-data');
  });

  const BODY = 'parameters: [{ name: pet, in: body, schema: { type: object } }]';
  const OK = 'responses: { 200: { description: OK } }';

  it.each([
    ['of a path', `${BODY}, post: { ${OK} }`, 'object'],
    ['of a path, after its operation', `post: { ${OK} }, ${BODY}`, 'object'],
    ['in no media type', `post: { consumes: [], ${BODY}, ${OK} }`, 'object'],
    [
      'that replaces that of a path',
      `${BODY}, post: { parameters: [{ name: a, in: body, schema: { type: array } }], ${OK} }`,
      'array',
    ],
  ])('has a body %s', (_what, item, type) => {
    expect(readPath(item).body?.schema.type).toBe(type);
  });

  it('has a form of the parameters of a path and of its operation, in the media type of that', () => {
    const type = 'consumes: [application/x-www-form-urlencoded]';
    const [shared, own] = ['a', 'b'].map((name) => `{ name: ${name}, in: formData, type: string }`);
    const item = `parameters: [${shared}], post: { ${type}, parameters: [${own}], ${OK} }`;
    const { body } = readPath(item);
    expect(body?.isForm).toBe(true);
    expect(body?.schema.class?.properties).toMatchObject([{ name: 'a' }, { name: 'b' }]);
  });

  it.each([
    ['JSON', '', '{ type: object }', undefined],
    ['JSON, if its media types are an empty list', 'produces: [],', '{ type: object }', undefined],
    ['text', 'produces: [text/csv],', '{ type: string }', ['text/csv']],
    ['a file', 'produces: [image/png],', '{ type: file }', ['image/png']],
    ['a file, although it says JSON', '', '{ type: file }', ['application/octet-stream']],
  ])('has a response that is %s', (_what, produces, schema, binary) => {
    for (const responses of [
      `{ 200: { description: OK, schema: ${schema} } }`,
      `{ 200: { $ref: '#/responses/ok' } }`,
    ]) {
      const operation = readPath(
        `get: { ${produces} responses: ${responses} }`,
        `responses: { ok: { description: OK, schema: ${schema} } }`,
      );
      expect(operation.success.schema).toBeDefined();
      expect(operation.success.schema?.binary).toEqual(binary);
    }
  });

  it('is rejected if it refers to what is at another place in OpenAPI 3', () => {
    const schema = `{ $ref: '#/paths/~1pets/post/parameters/0/schema' }`;
    const responses = `responses: { 201: { description: OK, schema: ${schema} } }`;
    expect(() => readPath(`post: { ${BODY}, ${responses} }`)).toThrow(
      'The reference #/paths/~1pets/post/parameters/0/schema of Swagger 2.0 cannot be converted',
    );
  });

  it('stays as it is if it is one of OpenAPI 3', () => {
    const document = { openapi: '3.0.3', paths: {} };
    expect(toOpenApi(document)).toBe(document);
  });
});
