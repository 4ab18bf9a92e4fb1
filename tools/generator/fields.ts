/**
 * Parses the fields of `npm run generate -- resource`, and makes an OpenAPI document of them, so that a resource goes
 * the same way as a contract.
 */
import type { Json } from './read/document.js';
import { toCamelCase, toPascalCase, toSingular } from './names.js';

/** What is wrong with the fields, in one sentence. */
export class FieldsError extends Error {}

/** The types of fields: for the help, and as schemas. `(…)` holds limits or values. */
const TYPES: Readonly<Record<string, (argument: string | undefined) => Json>> = {
  string: (range) => ({ type: 'string', ...toRange(range ?? '1..100', 'Length') }),
  text: (range) => ({ type: 'string', ...toRange(range ?? '0..10000', 'Length') }),
  integer: (range) => ({ type: 'integer', ...toFormat(range), ...toRange(range, 'imum') }),
  number: (range) => ({ type: 'number', format: 'double', ...toRange(range, 'imum') }),
  decimal: (argument) => toDecimal(argument ?? '10,2'),
  boolean: () => ({ type: 'boolean' }),
  enum: (values) => ({
    type: 'string',
    enum: (values ?? '').split(',').map((value) => value.trim()),
  }),
  date: () => ({ type: 'string', format: 'date' }),
  'date-time': () => ({ type: 'string', format: 'date-time' }),
  uuid: () => ({ type: 'string', format: 'uuid' }),
  uri: () => ({ type: 'string', format: 'uri', maxLength: 2048 }),
  email: () => ({ type: 'string', format: 'email', maxLength: 254 }),
  json: () => ({ type: 'object', additionalProperties: true }),
  map: (type) => ({
    type: 'object',
    additionalProperties: parseType(type ?? 'text', 'map'),
    maxProperties: 100,
  }),
  ref: (table) => ({
    type: 'integer',
    format: 'int64',
    minimum: 1,
    'x-references': toTable(table),
  }),
};

/** The names of the tables of the platform, and what SQLite reserves. */
const RESERVED_TABLES = new Set(
  'api_keys idempotency_records migrations rate_limits revisions'.split(' '),
);

/** The operations of a resource, in the order in which they are documented. */
export const OPERATIONS = ['list', 'create', 'read', 'replace', 'update', 'delete'] as const;
type OperationName = (typeof OPERATIONS)[number];

export interface ResourceOptions {
  /** Plural, which is also the path: `pets`, or `store/orders`. */
  readonly name: string;
  readonly fields: string;
  readonly operations?: string | undefined;
  readonly pages?: boolean | undefined;
  readonly ifMatch?: boolean | undefined;
  readonly uuid?: boolean | undefined;
  readonly singular?: string | undefined;
}

interface Field {
  readonly name: string;
  readonly schema: Json;
  readonly required: boolean;
  readonly filter: boolean;
}

/**
 * Returns the OpenAPI document of a resource.
 *
 * @throws {FieldsError}
 */
export function toDocument(options: ResourceOptions): Json {
  const path = `/${options.name.replaceAll(/^\/|\/$/g, '')}`;
  const plural = path.split('/').at(-1)!;
  if (!/^(\/[a-z][a-z\d-]*)+$/.test(path))
    throw new FieldsError(
      `The name ${options.name} must be lower case, such as pets or store/orders.`,
    );
  const item = toPascalCase(options.singular ?? toSingular(plural));
  if (RESERVED_TABLES.has(plural.replaceAll('-', '_')) || plural.startsWith('sqlite'))
    throw new FieldsError(
      `The platform has a table ${plural.replaceAll('-', '_')}: choose another name.`,
    );
  const fields = splitFields(options.fields).map(parseField);
  const taken = fields.find(
    ({ name }, index) =>
      ['id', 'version'].includes(name) ||
      fields.findIndex((other) => other.name === name) !== index,
  );
  if (taken !== undefined)
    throw new FieldsError(
      `The field ${taken.name} exists already: id and version are added by the generator.`,
    );
  const operations = parseOperations(options.operations);
  const filters = fields.filter(({ filter }) => filter);
  if (filters.length > 0 && options.pages !== true) throw new FieldsError('Filters need --pages.');
  const tag = path.split('/')[1]!;
  return {
    openapi: '3.1.0',
    info: { title: plural, version: '1.0.0' },
    tags: [
      {
        name: tag,
        description: `${toPascalCase(tag).replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')} of the pet store`,
      },
    ],
    paths: toPaths(path, item, plural, operations, filters, options, tag),
    components: { schemas: toSchemas(item, fields, options) },
  };
}

function toSchemas(item: string, fields: readonly Field[], { uuid }: ResourceOptions): Json {
  const id =
    uuid === true
      ? { type: 'string', format: 'uuid' }
      : { type: 'integer', format: 'int64', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
  const writable = fields.filter(({ schema }) => schema['readOnly'] !== true);
  const toObject = (own: readonly Field[], areOptional = false): Json => ({
    type: 'object',
    required: own.filter(({ required }) => required && !areOptional).map(({ name }) => name),
    properties: Object.fromEntries(
      own.map(({ name, schema }) => [name, areOptional ? toPatched(schema) : schema]),
    ),
  });
  const returned = fields.filter(({ schema }) => schema['writeOnly'] !== true);
  return {
    [item]: {
      type: 'object',
      required: [
        'id',
        ...returned
          .filter(({ required, schema }) => required || 'default' in schema)
          .map(({ name }) => name),
      ],
      properties: {
        id: { ...id, description: 'Assigned by the service.' },
        ...Object.fromEntries(returned.map(({ name, schema }) => [name, schema])),
      },
    },
    [`New${item}`]: toObject(writable),
    [`${item}Patch`]: toObject(
      writable.map((field) => {
        if (field.required || 'default' in field.schema) return field;
        return Object.assign({}, field, { schema: { ...field.schema, nullable: true } });
      }),
      true,
    ),
  };
}

/** In a patch, an omitted property stays unchanged. */
function toPatched(schema: Json): Json {
  const { default: _default, ...rest } = schema;
  const { nullable, type, ...other } = rest;
  return nullable === true ? { ...other, type: [type, 'null'] } : rest;
}

const toRequest = (name: string, type = 'application/json'): Json => ({
  required: true,
  content: { [type]: { schema: { $ref: `#/components/schemas/${name}` } } },
});

function toPaths(
  path: string,
  item: string,
  plural: string,
  operations: ReadonlySet<OperationName>,
  filters: readonly Field[],
  { pages, ifMatch, uuid }: ResourceOptions,
  tag: string,
): Json {
  const schema = { $ref: `#/components/schemas/${item}` };
  const many = toPascalCase(plural);
  const noun = item.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
  const nouns = plural.replaceAll('-', ' ');
  const idParam = `${toCamelCase(item)}Id`;
  const idType =
    uuid === true
      ? { type: 'string', format: 'uuid' }
      : { type: 'integer', format: 'int64', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
  const etag = ifMatch === true ? { headers: { ETag: { schema: { type: 'string' } } } } : {};
  const returns = (
    status: number,
    description: string,
    value: Json | undefined = schema,
  ): Json => ({
    [status]: {
      description,
      ...(value !== undefined && { content: { 'application/json': { schema: value } }, ...etag }),
    },
  });
  const operation = (
    name: OperationName,
    operationId: string,
    summary: string,
    more: Json,
  ): Json => (operations.has(name) ? { operationId, tags: [tag], summary, ...more } : {});
  const precondition =
    ifMatch === true
      ? {
          parameters: [
            { name: 'If-Match', in: 'header', required: true, schema: { type: 'string' } },
          ],
        }
      : {};
  const query = [
    ...(pages === true
      ? [
          {
            name: 'limit',
            in: 'query',
            description: 'The maximum number of items.',
            schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 },
          },
          {
            name: 'after',
            in: 'query',
            description: 'The id after which the page starts.',
            schema: idType,
          },
        ]
      : []),
    ...filters.map(({ name, schema: filtered }) => ({
      name,
      in: 'query',
      description: `Selects ${nouns} by ${name}.`,
      schema: toPatched(filtered),
    })),
  ];
  const missing = { 404: { description: `No ${noun} has this id.` } };
  const paths: Record<string, Record<string, Json>> = {
    [path]: {
      get: operation('list', `list${many}`, `List ${nouns}`, {
        parameters: query,
        responses: {
          200: {
            description: `The ${nouns} in id order.`,
            content: { 'application/json': { schema: { type: 'array', items: schema } } },
          },
        },
      }),
      post: operation('create', `create${item}`, `Create a ${noun}`, {
        requestBody: toRequest(`New${item}`),
        responses: returns(201, `The created ${noun}.`),
      }),
    },
    [`${path}/{${idParam}}`]: {
      get: operation('read', `get${item}`, `Get a ${noun}`, {
        responses: { ...returns(200, `The ${noun}.`), ...missing },
      }),
      put: operation('replace', `replace${item}`, `Replace a ${noun}`, {
        ...precondition,
        requestBody: toRequest(`New${item}`),
        responses: { ...returns(200, `The replaced ${noun}.`), ...missing },
      }),
      patch: operation('update', `update${item}`, `Update a ${noun}`, {
        ...precondition,
        requestBody: toRequest(`${item}Patch`, 'application/merge-patch+json'),
        responses: { ...returns(200, `The updated ${noun}.`), ...missing },
      }),
      delete: operation('delete', `delete${item}`, `Delete a ${noun}`, {
        ...precondition,
        responses: { 204: { description: `The ${noun} was deleted.` }, ...missing },
      }),
    },
  };
  const parameter = {
    name: idParam,
    in: 'path',
    required: true,
    description: `The id of the ${noun}.`,
    schema: idType,
  };
  return Object.fromEntries(
    Object.entries(paths).map(([key, methods]) => [
      key,
      {
        ...(key.endsWith('}') && { parameters: [parameter] }),
        ...Object.fromEntries(
          Object.entries(methods).filter(([, value]) => Object.keys(value).length > 0),
        ),
      },
    ]),
  );
}

function parseOperations(text: string | undefined): Set<OperationName> {
  const names =
    text?.split(',').map((name) => name.trim()) ?? OPERATIONS.filter((name) => name !== 'replace');
  const unknown = names.find((name) => !(OPERATIONS as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new FieldsError(`The operation ${unknown} is unknown${suggest(unknown, OPERATIONS)}.`);
  if (!names.includes('create'))
    throw new FieldsError('Without the operation create, there would be nothing to read.');
  return new Set(names as OperationName[]);
}

/** Splits fields at white space outside of brackets. */
function splitFields(fields: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let current = '';
  for (const character of `${fields} `) {
    if ('({['.includes(character)) depth++;
    if (')}]'.includes(character)) depth--;
    if (depth === 0 && /\s/.test(character)) {
      if (current !== '') parts.push(current);
      current = '';
    } else current += character;
  }
  if (depth !== 0)
    throw new FieldsError(`A bracket is not closed: ${current.trim().slice(0, 100)}`);
  if (parts.length === 0)
    throw new FieldsError('At least one field is required, such as name:string(1..100).');
  return parts;
}

/** `name:type?=default:unique`. */
function parseField(text: string): Field {
  const [, name, rest] = /^([^:]+):(.+)$/s.exec(text) ?? [];
  if (name === undefined || rest === undefined)
    throw new FieldsError(`${text.slice(0, 100)} must be name:type, such as name:string(1..100).`);
  if (!/^[a-z]\w*$/i.test(name)) throw new FieldsError(`${name} must be a name in camelCase.`);
  const { type, rest: suffix } = splitType(rest);
  const [, optional, value, flags = ''] =
    /^(\?)?(?:=([^:]*))?((?::[a-z-]+)*)$/s.exec(suffix) ??
    fail(`${name}: ${suffix} is not understood.`);
  const marks = new Set(flags.split(':').filter((flag) => flag !== ''));
  for (const mark of marks) {
    if (!MARKS.includes(mark))
      throw new FieldsError(`${name}: the mark :${mark} is unknown${suggest(mark, MARKS)}.`);
  }
  const schema = parseType(type, name);
  const isNow = value === 'now' && schema['format'] === 'date-time';
  return {
    name,
    required: optional === undefined && (value === undefined || isNow),
    filter: marks.has('filter'),
    schema: {
      ...schema,
      ...(value !== undefined && !isNow && { default: parseDefault(value, schema, name) }),
      ...(marks.has('unique') && { 'x-unique': true }),
      ...((marks.has('read-only') || isNow) && { readOnly: true }),
      ...(marks.has('write-only') && { writeOnly: true }),
    },
  };
}

const MARKS = ['unique', 'filter', 'read-only', 'write-only'];

const fail = (message: string): never => {
  throw new FieldsError(message);
};

/** Splits a type from what follows it: the type ends with its last bracket, or with its name. */
function splitType(text: string): { readonly type: string; readonly rest: string } {
  let depth = 0;
  let index = 0;
  for (; index < text.length; index++) {
    const character = text[index]!;
    if ('({['.includes(character)) depth++;
    else if (')}]'.includes(character)) depth--;
    else if (depth === 0 && /[?=:]/.test(character)) break;
  }
  return { type: text.slice(0, index), rest: text.slice(index) };
}

function parseType(text: string, place: string): Json {
  const array = /^(.*)\[([^[\]]*)\]$/s.exec(text);
  if (array !== null) {
    const { minLength: minItems, maxLength: maxItems } = toRange(
      array[2] === '' ? '0..100' : array[2]!,
      'Length',
    ) as { minLength?: number; maxLength?: number };
    const items = parseType(array[1]!, place);
    return {
      type: 'array',
      items,
      ...(minItems !== undefined && minItems > 0 && { minItems }),
      maxItems,
      ...('x-references' in items && { uniqueItems: true }),
    };
  }
  if (text.startsWith('{') && text.endsWith('}')) {
    const fields = splitFields(text.slice(1, -1)).map(parseField);
    return {
      type: 'object',
      required: fields.filter(({ required }) => required).map(({ name }) => name),
      properties: Object.fromEntries(fields.map(({ name, schema }) => [name, schema])),
    };
  }
  const [, name = '', argument] = /^([a-z-]+)(?:\((.*)\))?$/s.exec(text) ?? [];
  const toSchema = TYPES[name];
  if (toSchema === undefined)
    throw new FieldsError(
      `${place}: the type ${text.slice(0, 50)} is unknown${suggest(name || text, Object.keys(TYPES))}.`,
    );
  return toSchema(argument);
}

/** `1..100`, `..100`, `1..` as keywords that end in `Length` or `imum`. */
function toRange(range: string | undefined, keyword: 'Length' | 'imum'): Json {
  if (range === undefined || range === '') return {};
  const [, min, max] = /^(-?[\d.]+?)?\.\.(-?[\d.]+)?$/.exec(range) ?? [];
  const limits = [min, max].map((each) => (each === undefined ? undefined : Number(each)));
  if (
    (min === undefined && max === undefined) ||
    limits.some(Number.isNaN) ||
    Number(min ?? -Infinity) > Number(max ?? Infinity)
  )
    throw new FieldsError(`The range ${range} must be minimum..maximum, such as 1..100.`);
  return {
    ...(limits[0] !== undefined && { [`min${keyword}`]: limits[0] }),
    ...(limits[1] !== undefined && { [`max${keyword}`]: limits[1] }),
  };
}

function toFormat(range: string | undefined): Json {
  const { minimum = -Infinity, maximum = Infinity } = toRange(range, 'imum') as {
    minimum?: number;
    maximum?: number;
  };
  return { format: minimum >= -(2 ** 31) && maximum < 2 ** 31 ? 'int32' : 'int64' };
}

function toDecimal(argument: string): Json {
  const [precision = 0, scale = 0] = argument.split(',').map(Number);
  if (!(precision > scale && scale >= 0))
    throw new FieldsError(
      `decimal(${argument}) must be decimal(precision,scale), such as decimal(10,2).`,
    );
  const fraction = scale === 0 ? '' : `(\\.\\d{1,${scale}})?`;
  return {
    type: 'string',
    format: 'decimal',
    pattern: `^-?(0|[1-9]\\d{0,${precision - scale - 1}})${fraction}$`,
    maxLength: precision + 2,
  };
}

function toTable(table: string | undefined): string {
  if (table === undefined || !/^[a-z][a-z\d_]*$/.test(table))
    throw new FieldsError('A reference names a table, such as ref(categories).');
  return table;
}

function parseDefault(text: string, { type, enum: values }: Json, name: string): unknown {
  if (type === 'string') {
    if (Array.isArray(values) && !values.includes(text))
      throw new FieldsError(`${name}: the default ${text} is none of ${values.join(', ')}.`);
    return text;
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new FieldsError(`${name}: the default ${text} is not a value of the type.`);
  }
}

/** `; did you mean …?` for the nearest of several words. */
function suggest(word: string, words: readonly string[]): string {
  const [nearest] = words
    .map((each) => ({ each, distance: getDistance(word, each) }))
    .toSorted((a, b) => a.distance - b.distance);
  return nearest !== undefined && nearest.distance <= Math.max(2, word.length / 2)
    ? `; did you mean ${nearest.each}`
    : `; it must be one of ${words.join(', ')}`;
}

/** The number of characters to insert, remove or replace (Levenshtein). */
function getDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [row, left] of a.split('').entries()) {
    const current = [row + 1];
    for (const [column, right] of b.split('').entries())
      current.push(
        Math.min(
          current[column]! + 1,
          previous[column + 1]! + 1,
          previous[column]! + (left === right ? 0 : 1),
        ),
      );
    previous = current;
  }
  return previous.at(-1)!;
}
