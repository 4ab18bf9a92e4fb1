/**
 * What the platform does not support in a contract, as rules of Redocly, which reports the file and the JSON
 * pointer of each violation.
 */
import type { Oas3Rule, RawUniversalConfig } from '@redocly/openapi-core';
import { isReservedWord } from '../resource/collisions.js';
import {
  type Header,
  type MediaType,
  METHODS,
  type Operation,
  type Parameter,
  type RequestBody,
  type Schema,
  type SchemaOrReference,
} from '../../openapi/openapi.js';

/** The keywords that the decorators of properties can express. */
const SCHEMA_KEYWORDS: ReadonlySet<string> = new Set([
  'type',
  'nullable',
  'format',
  'title',
  'description',
  'example',
  'examples',
  'default',
  'enum',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'readOnly',
  'writeOnly',
  'allOf',
  'anyOf',
  'items',
  'minItems',
  'maxItems',
  'uniqueItems',
  'properties',
  'required',
  'additionalProperties',
  'maxProperties',
  'externalDocs',
  'xml',
  '$schema',
  '$id',
  '$comment',
]);

/** The formats of each type, besides none. */
const FORMATS: Record<string, readonly string[]> = {
  string: ['date', 'date-time', 'uuid', 'uri', 'binary', 'uri-reference'],
  integer: ['int32', 'int64'],
  number: ['double'],
};

const PATH_KEYS: ReadonlySet<string> = new Set([
  ...METHODS,
  'summary',
  'description',
  'parameters',
  'servers',
  '$ref',
]);
const MERGE_PATCH = 'application/merge-patch+json';
const BYTES = 'application/octet-stream';

/** Reports a problem with the value of a key, or with the node itself. */
type Report = (message: string, ...keys: (string | number)[]) => void;

/** Returns a visitor that checks a node of a type. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- callers name the type of the node
function check<Node extends object>(
  verify: (node: Node, report: Report, key: string | number) => void,
): never {
  const visit = (
    node: Node,
    {
      report,
      location,
      key,
    }: {
      report: (problem: { message: string; location: object }) => void;
      location: { child: (keys: (string | number)[]) => object };
      key: string | number;
    },
  ): void =>
    verify(node, (message, ...keys) => report({ message, location: location.child(keys) }), key);
  // The types of Redocly name each node differently.
  return visit as never;
}

function checkSchema(schema: Schema, report: Report): void {
  if ('$ref' in schema) return;
  const { type = 'object', enum: values, format, pattern, allOf, anyOf } = schema;
  for (const keyword of Object.keys(schema)) {
    if (!SCHEMA_KEYWORDS.has(keyword) && !keyword.startsWith('x-'))
      report(`${keyword} is not supported.`, keyword);
  }
  const types = [type].flat().filter((name) => name !== 'null');
  if (types.length > 1) report('Several types are not supported.', 'type');
  if (anyOf !== undefined && (anyOf.length !== 2 || !anyOf.some((part) => part.type === 'null')))
    report('anyOf is not supported, except for null and another schema.', 'anyOf');
  if (schema.type === undefined && schema.properties === undefined && !allOf && !anyOf)
    report('A type is missing.');
  if (format !== undefined && FORMATS[types[0]!]?.includes(format) !== true)
    report(`The format ${format} is not supported.`, 'format');
  const strings = values?.filter((value) => value !== null) ?? [];
  if (!strings.every((value) => typeof value === 'string'))
    report('Only strings may be an enum.', 'enum');
  if (types[0] === 'number' && ('minimum' in schema || 'maximum' in schema))
    report('Limits are supported only for integers.');
  if (pattern !== undefined) checkPattern(schema, report);
  for (const limit of ['minimum', 'maximum'] as const) {
    if (schema[limit] !== undefined && !Number.isSafeInteger(schema[limit]))
      report('Integers are limited to -(2^53-1) and 2^53-1.', limit);
  }
  if (types[0] === 'array' && schema.items === undefined) report('items are missing.');
  checkObject(schema, types[0], report);
}

function checkPattern({ pattern, example, examples, format }: Schema, report: Report): void {
  try {
    const text = example ?? examples?.[0];
    if (typeof text !== 'string' || !new RegExp(pattern!, 'u').test(text))
      report('A string with a pattern needs an example that matches it.', 'pattern');
  } catch {
    report('The pattern is not a regular expression of JavaScript.', 'pattern');
  }
  if (format !== undefined) report('A pattern with a format is not supported.', 'pattern');
}

function checkObject(schema: Schema, type: string | undefined, report: Report): void {
  const { properties, additionalProperties, required = [] } = schema;
  if (
    properties !== undefined &&
    additionalProperties !== undefined &&
    additionalProperties !== false
  )
    report('Objects have either named properties or any.', 'additionalProperties');
  if (additionalProperties === true || isEmpty(additionalProperties))
    report('The values of a map need a schema.', 'additionalProperties');
  const isObject = schema.type === 'object' && type === 'object';
  if (
    isObject &&
    properties === undefined &&
    typeof additionalProperties !== 'object' &&
    !schema.allOf
  )
    report('Objects without properties are not supported.');
  for (const [name, property] of Object.entries(properties ?? {})) {
    if (!/^[A-Za-z_$][\w$]*$/.test(name) || name in Object.prototype || name === 'prototype')
      report(`${name} cannot be the name of a property.`, 'properties', name);
    if ('default' in property && required.includes(name))
      report('A required property cannot have a default.', 'properties', name, 'default');
  }
}

const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;

function checkParameter(parameter: Parameter, report: Report): void {
  const { name, in: place, schema, style, explode, required = false } = parameter;
  if (place === 'cookie') report('Cookies are not supported.', 'in');
  if (schema === undefined) report('A parameter needs a schema.');
  for (const key of ['deprecated', 'allowEmptyValue', 'allowReserved', 'examples'] as const)
    if (key in parameter) report(`${key} is not supported for a parameter.`, key);
  const isQuery = place === 'query';
  if (style !== undefined && style !== (isQuery ? 'form' : 'simple'))
    report(`The style ${style} is not supported.`, 'style');
  if (explode !== undefined && explode !== isQuery)
    report('Only the default of explode is supported.', 'explode');
  if (!isSimple(schema) || !isSimple(schema?.items))
    report('Objects are not supported in parameters.', 'schema');
  if (place === 'header') {
    if (required) report('Required headers are not supported.', 'required');
    if (schema?.type !== 'string') report('Only strings are supported in headers.', 'schema');
  } else if (!/^[A-Za-z_]\w*$/.test(name) || name in Object.prototype || isReservedWord(name)) {
    report(`${name} cannot be the name of a parameter.`, 'name');
  }
  if (place === 'path' && schema?.type === 'array')
    report('Arrays are not supported in paths.', 'schema');
}

const isSimple = (schema: SchemaOrReference | undefined): boolean =>
  schema?.type !== 'object' && schema?.properties === undefined && schema?.allOf === undefined;

function checkOperation(operation: Operation, report: Report, method: string | number): void {
  const { operationId = '', summary, tags = [], requestBody, responses, security } = operation;
  if (!/^[a-z][A-Za-z]+(V\d+)?$/.test(operationId) || isReservedWord(operationId))
    report('An operation id has letters only and starts with a small one.', 'operationId');
  if (summary !== undefined && !/^[A-Z].*[^.]$/.test(summary))
    report('A summary starts with a capital letter and ends without a full stop.', 'summary');
  if (tags.length > 1) report('Only one tag is supported.', 'tags', 1);
  for (const key of ['callbacks', 'servers'])
    if (key in operation) report(`${key} is not supported.`, key);
  if (requestBody !== undefined && (method === 'get' || method === 'delete'))
    report(`A body is not supported for ${method.toUpperCase()}.`, 'requestBody');
  for (const [status, response] of Object.entries(responses)) {
    if (!/^(default|[2345]\d\d)$/.test(status))
      report('A status has three digits.', 'responses', status);
    else if (status.startsWith('4')) checkErrorContent(response, report, status);
  }
  if (security?.length === 0 && !Object.keys(responses).some((status) => status.startsWith('4')))
    report('A public operation needs a response with a status 4xx.', 'responses');
}

/** The body of every error is that of the platform. */
function checkErrorContent(response: object, report: Report, status: string): void {
  if (!('content' in response)) return;
  const { schema } = (response.content as Record<string, MediaType>)['application/json'] ?? {};
  if (schema?.$ref !== '#/components/schemas/Error')
    report('The schema of an error response is Error, or missing.', 'responses', status, 'content');
}

function checkBody({ content, required = false }: RequestBody, report: Report): void {
  if (!required) report('An optional body is not supported: add required: true.');
  const types = Object.keys(content);
  for (const type of types) {
    if (!['application/json', MERGE_PATCH, BYTES].includes(type))
      report(`The media type ${type} is not supported for a body.`, 'content', type);
    const { schema } = content[type]!;
    if (type === BYTES ? schema?.format !== 'binary' : schema === undefined)
      report('The body needs a schema: for bytes, with the format binary.', 'content', type);
    if (schema?.type === 'array') report('A JSON body is an object.', 'content', type, 'schema');
  }
  const [first, ...others] = Object.values(content).map(({ schema }) => JSON.stringify(schema));
  if (others.some((other) => other !== first))
    report('The schema of a body is the same in all media types.', 'content');
}

function checkErrorSchema({ properties = {}, required = [] }: Schema, report: Report): void {
  const types = Object.entries(properties).map(([name, { type }]) => `${name}:${String(type)}`);
  const isExpected =
    types.toSorted().join() === 'code:string,message:string,status:integer' &&
    required.length === 3;
  if (!isExpected)
    report('The schema Error has exactly the required properties code, message and status.');
}

const unsupported: Oas3Rule = () => ({
  Root: check<{ webhooks?: object; paths?: object }>((root, report) => {
    if (root.webhooks !== undefined) report('Webhooks are not supported.', 'webhooks');
    if (Object.keys(root.paths ?? {}).length === 0) report('There are no paths.');
  }),
  PathItem: check<object>((item, report, path) => {
    if (!/^\/[A-Za-z0-9_-]+(\/([\w.~-]+|\{[A-Za-z_]\w*\}))*$/.test(String(path))) {
      report(
        'A path starts with a fixed segment, and its parameters are whole segments: /pets/{petId}.',
      );
    }
    for (const key of Object.keys(item))
      if (!PATH_KEYS.has(key) && !key.startsWith('x-')) report(`${key} is not supported.`, key);
  }),
  Operation: check<Operation>(checkOperation),
  Parameter: check<Parameter>(checkParameter),
  RequestBody: check<RequestBody>(checkBody),
  Response: check<{ content?: Record<string, MediaType> }>(({ content = {} }, report) => {
    for (const type of Object.keys(content))
      if (type !== 'application/json')
        report(`The media type ${type} is not supported for a response.`, 'content', type);
  }),
  Header: check<Header>(({ schema }, report) => {
    if (schema === undefined) report('A header needs a schema.');
  }),
  Schema: check<Schema>(checkSchema),
  NamedSchemas: check<Record<string, Schema>>((schemas, report) => {
    for (const [name, schema] of Object.entries(schemas)) {
      if (!/^[A-Z][A-Za-z0-9]*$/.test(name))
        report('The name of a schema starts with a capital letter.', name);
      if (name in globalThis && name !== 'Error')
        report(`${name} is the name of a global object of JavaScript.`, name);
      if (name === 'Error')
        checkErrorSchema(schema, (message, ...keys) => report(message, name, ...keys));
    }
  }),
});

/** What `readContract` checks for the generator. */
export const GENERATOR_RULES: Pick<RawUniversalConfig, 'plugins' | 'rules'> = {
  plugins: [{ id: 'platform', rules: { oas3: { unsupported } } }],
  rules: { 'platform/unsupported': 'error' },
};
