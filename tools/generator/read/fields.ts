/**
 * Parses the fields of `npm run generate -- resource`, and makes an OpenAPI document of them, so that a resource goes
 * the same way as a contract.
 */
import { closestMatch } from 'leven';
import type { Json } from './json.js';
import { ID_SCHEMAS, type ResourceId } from '../model.js';
import { toCamelCase, toPascalCase, toSentence, toSingular } from '../names.js';

/** What is wrong with the fields, in one sentence. */
export class FieldsError extends Error {}

/** The types of fields: for the help, and as schemas. `(…)` holds limits or values. */
const TYPES: Readonly<Record<string, (argument: string | undefined) => Json>> = {
  string: (range) => ({ type: 'string', ...toRange(range ?? '1..100', 'Length') }),
  text: (range) => ({ type: 'string', ...toRange(range ?? '0..10000', 'Length') }),
  integer: (range) => toInteger(range),
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
};

/** The operations of a resource, in the order in which they are documented; `*` stands for its name. */
const OPERATIONS = {
  list: { method: 'get', verb: 'List', status: 200, response: 'The * in id order.' },
  create: { method: 'post', verb: 'Create', status: 201, response: 'The created *.' },
  read: { method: 'get', verb: 'Get', status: 200, response: 'The *.' },
  replace: { method: 'put', verb: 'Replace', status: 200, response: 'The replaced *.' },
  update: { method: 'patch', verb: 'Update', status: 200, response: 'The updated *.' },
  delete: { method: 'delete', verb: 'Delete', status: 204, response: 'The * was deleted.' },
} as const;
type OperationName = keyof typeof OPERATIONS;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[];

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

/** The kinds of ids of the tables that exist, by their names. */
type Tables = ReadonlyMap<string, ResourceId['kind']>;

/**
 * Returns the OpenAPI document of a resource.
 *
 * @throws {FieldsError} if the name or a field is invalid
 */
export function toDocument(options: ResourceOptions, tables: Tables): Json {
  const { name, singular, uuid = false, pages = false } = options;
  const plural = name.split('/').at(-1)!;
  if (!/^[a-z][a-z\d-]*(\/[a-z][a-z\d-]*)*$/.test(name))
    throw new FieldsError(`${name} must be a name in lower case, such as pets or store/orders.`);
  const table = plural.replaceAll('-', '_');
  if (tables.has(table) || table.startsWith('sqlite'))
    throw new FieldsError(`There is a table ${table} already: choose another name.`);
  const item = toPascalCase(singular ?? toSingular(plural));
  const kind = uuid ? 'uuid' : 'integer';
  const id = { ...ID_SCHEMAS[kind] };
  const fields = new FieldParser(new Map([...tables, [table, kind]])).parse(options.fields);
  const taken = fields.find(({ name: field }) => ['id', 'version'].includes(field));
  if (taken !== undefined)
    throw new FieldsError(`The field ${taken.name} is added by the generator.`);
  const filters = fields.filter(({ filter }) => filter);
  if (filters.length > 0 && !pages) throw new FieldsError('Filters need --pages.');
  const operations = parseOperations(options.operations);
  const tag = name.split('/')[0]!;
  return {
    openapi: '3.1.0',
    info: { title: plural, version: '1.0.0' },
    security: [{ key: [] }],
    tags: [{ name: tag, description: `${toSentence(tag)} of the pet store` }],
    paths: toPaths(options, item, id, operations, filters),
    components: { schemas: toSchemas(item, id, fields) },
  };
}

function toSchemas(item: string, id: Json, fields: readonly Field[]): Json {
  const schema = { ...id, description: 'Assigned by the service.' };
  const returned = fields.filter((field) => field.schema['writeOnly'] !== true);
  const writable = fields.filter((field) => field.schema['readOnly'] !== true);
  const isReturned = (field: Field): boolean => field.required || 'default' in field.schema;
  const patch = writable.map((field): Field => {
    const { default: _default, ...rest } = field.schema;
    return { ...field, schema: isReturned(field) ? rest : { ...rest, nullable: true } };
  });
  return {
    [item]: toObject(
      [{ name: 'id', schema, required: true, filter: false }, ...returned],
      isReturned,
    ),
    [`New${item}`]: toObject(writable),
    [`${item}Patch`]: toObject(patch, () => false),
  };
}

const toObject = (
  fields: readonly Field[],
  isRequired = ({ required }: Field): boolean => required,
): Json => ({
  type: 'object',
  required: fields.filter(isRequired).map(({ name }) => name),
  properties: Object.fromEntries(fields.map(({ name, schema }) => [name, schema])),
});

/** Returns the paths of a resource, with the operations that it has. */
function toPaths(
  { name, pages = false, ifMatch = false }: ResourceOptions,
  item: string,
  id: Json,
  used: readonly string[],
  filters: readonly Field[],
): Json {
  const segments = name.split('/');
  const [tag, plural] = [segments[0]!, segments.at(-1)!];
  const nouns = plural.replaceAll('-', ' ');
  const noun = toSentence(item).toLowerCase();
  const article = /^[aeio]/.test(noun) ? 'an' : 'a';
  const idName = `${toCamelCase(item)}Id`;
  const text = { schema: { type: 'string' } };
  // With an ETag here, the resource has a version, which all of its operations use.
  const headers = { Location: text, ...(ifMatch && { ETag: text }) };
  const precondition = [{ name: 'If-Match', in: 'header', required: true, ...text }];
  const query = [...(pages ? toPageParameters(id) : []), ...toFilters(filters, nouns)];
  const bodies: Partial<Record<OperationName, Json>> = {
    create: toContent(toReference(`New${item}`)),
    replace: toContent(toReference(`New${item}`)),
    update: toContent(toReference(`${item}Patch`), 'application/merge-patch+json'),
  };
  const toOperation = (operation: OperationName): Json => {
    const { verb, status, response } = OPERATIONS[operation];
    const isList = operation === 'list';
    const isItem = !isList && operation !== 'create';
    const words = isList ? nouns : noun;
    const returned = isList ? { type: 'array', items: toReference(item) } : toReference(item);
    const body = bodies[operation];
    return {
      ...(operation === 'create' && { 'x-resource': true }),
      operationId: `${verb.toLowerCase()}${isList ? toPascalCase(plural) : item}`,
      summary: `${verb} ${isList ? nouns : `${article} ${noun}`}`,
      tags: [tag],
      parameters: isList ? query : isItem && ifMatch && operation !== 'read' ? precondition : [],
      requestBody: body && { required: true, ...body },
      responses: {
        [status]: {
          description: response.replace('*', words),
          ...(status !== 204 && toContent(returned)),
          ...(status === 201 && { headers }),
        },
        ...(isItem && { 404: { description: `No ${noun} has this id.` } }),
      },
    };
  };
  const toPathItem = (...operations: OperationName[]): Json =>
    Object.fromEntries(
      operations
        .filter((operation) => used.includes(operation))
        .map((operation) => [OPERATIONS[operation].method, toOperation(operation)]),
    );
  const description = `The id of the ${noun}.`;
  return {
    [`/${name}`]: toPathItem('list', 'create'),
    [`/${name}/{${idName}}`]: {
      parameters: [{ name: idName, in: 'path', required: true, description, schema: id }],
      ...toPathItem('read', 'replace', 'update', 'delete'),
    },
  };
}

const toReference = (schema: string): Json => ({ $ref: `#/components/schemas/${schema}` });

const toContent = (schema: Json, type = 'application/json'): Json => ({
  content: { [type]: { schema } },
});

const toPageParameters = (id: Json): Json[] => [
  {
    name: 'limit',
    in: 'query',
    description: 'The maximum number of items.',
    schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 },
  },
  { name: 'after', in: 'query', description: 'The last id of the page before.', schema: id },
];

const toFilters = (fields: readonly Field[], nouns: string): Json[] =>
  fields.map(({ name, schema: { default: _default, ...schema } }) => {
    const description = `Selects ${nouns} by ${name}.`;
    return { name, in: 'query', description, schema };
  });

function parseOperations(text: string | undefined): string[] {
  const names =
    text?.split(',').map((name) => name.trim()) ??
    OPERATION_NAMES.filter((name) => name !== 'replace');
  const unknown = names.find((name) => !Object.hasOwn(OPERATIONS, name));
  if (unknown !== undefined)
    throw new FieldsError(
      `The operation ${unknown} is unknown${suggest(unknown, OPERATION_NAMES)}.`,
    );
  if (!names.includes('create'))
    throw new FieldsError('Without the operation create, there would be nothing to read.');
  return names;
}

/** Splits fields at white space outside of brackets. */
function splitFields(fields: string): string[] {
  const parts: string[] = [];
  let rest = fields.trim();
  while (rest !== '') {
    const end = findOutside(rest, /\s/);
    parts.push(rest.slice(0, end));
    rest = rest.slice(end).trim();
  }
  if (parts.length === 0)
    throw new FieldsError('At least one field is required, such as name:string(1..100).');
  return parts;
}

/** The index of the first character outside of brackets that a pattern matches, or the length of the text. */
function findOutside(text: string, pattern: RegExp): number {
  let depth = 0;
  for (const [index, character] of text.split('').entries()) {
    if ('({['.includes(character)) depth++;
    if (')}]'.includes(character)) depth--;
    if (depth === 0 && pattern.test(character)) return index;
  }
  if (depth !== 0) throw new FieldsError(`A bracket is not closed: ${text.slice(0, 100)}`);
  return text.length;
}

class FieldParser {
  constructor(private readonly tables: Tables) {}

  parse(text: string): Field[] {
    const fields = splitFields(text).map((field) => this.parseField(field));
    const names = fields.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new FieldsError(`There are two fields named ${twice}.`);
    return fields;
  }

  /** `name:type?=default:unique`. */
  private parseField(text: string): Field {
    const [, name, rest] = /^([^:]+):(.+)$/s.exec(text) ?? [];
    if (name === undefined || rest === undefined)
      throw new FieldsError(
        `${text.slice(0, 100)} must be name:type, such as name:string(1..100).`,
      );
    if (!/^[a-z]\w*$/.test(name)) throw new FieldsError(`${name} must be a name in camelCase.`);
    const end = findOutside(rest, /[?=:]/);
    const [type, suffix] = [rest.slice(0, end), rest.slice(end)];
    const [match, optional, value, flags = ''] =
      /^(\?)?(?:=([^:]*))?((?::[a-z-]+)*)$/s.exec(suffix) ?? [];
    if (match === undefined) throw new FieldsError(`${name}: ${suffix} is not understood.`);
    const marks = new Set(flags.split(':').filter((flag) => flag !== ''));
    for (const mark of marks)
      if (!MARKS.includes(mark))
        throw new FieldsError(`${name}: the mark :${mark} is unknown${suggest(mark, MARKS)}.`);
    const schema = this.parseType(type, name);
    const isScalar = !['object', 'array'].includes(String(schema['type']));
    for (const mark of ['unique', 'filter'])
      if (marks.has(mark) && !isScalar)
        throw new FieldsError(`${name}: an object or an array cannot be :${mark}.`);
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
        ...(isNow && { 'x-assigned': 'now' }),
        ...(marks.has('write-only') && { writeOnly: true }),
      },
    };
  }

  private parseType(text: string, place: string): Json {
    const array = /^(.*)\[([^[\]]*)\]$/s.exec(text);
    if (array !== null) {
      const items = this.parseType(array[1]!, place);
      const limits = toRange(array[2] === '' ? '0..100' : array[2], 'Items');
      const uniqueItems = 'x-references' in items && { uniqueItems: true };
      return { type: 'array', items, ...limits, ...uniqueItems };
    }
    if (text.startsWith('{') && text.endsWith('}')) return toObject(this.parse(text.slice(1, -1)));
    const [, name = '', argument] = /^([a-z-]+)(?:\((.*)\))?$/s.exec(text) ?? [];
    if (name === 'ref') return this.parseReference(argument, place);
    if (name === 'map') {
      const values = this.parseType(argument ?? 'text', place);
      return { type: 'object', additionalProperties: values, maxProperties: 100 };
    }
    const toSchema = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (toSchema !== undefined) return toSchema(argument);
    const types = [...Object.keys(TYPES), 'map', 'ref'];
    throw new FieldsError(
      `${place}: the type ${text.slice(0, 50)} is unknown${suggest(name || text, types)}.`,
    );
  }

  private parseReference(table = '', place: string): Json {
    const kind = this.tables.get(table);
    if (kind !== undefined) return { ...ID_SCHEMAS[kind], 'x-references': table };
    const names = [...this.tables.keys()];
    throw new FieldsError(`${place}: there is no table ${table}${suggest(table, names)}.`);
  }
}

const MARKS = ['unique', 'filter', 'read-only', 'write-only'];

/** `1..100`, `..100`, `1..` as keywords such as `minLength` and `maximum`. */
function toRange(range: string | undefined, keyword: 'Length' | 'Items' | 'imum'): Json {
  if (range === undefined || range === '') return {};
  const [, ...ends] = /^(-?[\d.]+?)?\.\.(-?[\d.]+)?$/.exec(range) ?? [];
  const [min, max] = ends.map((end) => (end === undefined ? undefined : Number(end)));
  const limits = Object.entries({ [`min${keyword}`]: min, [`max${keyword}`]: max }).filter(
    ([, limit]) => limit !== undefined,
  );
  const isValid = limits.length > 0 && ![min, max].some(Number.isNaN);
  if (!isValid || (min ?? -Infinity) > (max ?? Infinity))
    throw new FieldsError(`The range ${range} must be minimum..maximum, such as 1..100.`);
  return Object.fromEntries(limits);
}

function toInteger(range: string | undefined): Json {
  const limits = toRange(range, 'imum') as { minimum?: number; maximum?: number };
  const { minimum = -Infinity, maximum = Infinity } = limits;
  const isSmall = minimum >= -(2 ** 31) && maximum < 2 ** 31;
  return { type: 'integer', format: isSmall ? 'int32' : 'int64', ...limits };
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

/** `; did you mean …` for the nearest of several words. */
function suggest(word: string, words: readonly string[]): string {
  const nearest = closestMatch(word, words, { maxDistance: Math.max(2, word.length / 2) });
  return nearest === undefined
    ? `; it must be one of ${words.join(', ')}`
    : `; did you mean ${nearest}`;
}
