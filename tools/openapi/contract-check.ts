/**
 * Compares the OpenAPI document of the service with a contract. Both are read as the generator reads a contract, and
 * the contract is planned as it would be generated: so what the generator notes is no difference.
 */
import { toDocument } from '../../src/platform/validation/property.js';
import type { DtoClass, Operation, Property, Schema } from '../generator/model.js';
import { toPascalCase } from '../generator/names.js';
import { readContract, toRoute } from '../generator/read/contract.js';
import type { Json } from '../generator/read/json.js';
import { planModule } from '../generator/plan/plan.js';

/** What is compared: values as JSON, and what has parts itself, by the text that follows the place in a message. */
interface Parts {
  readonly [place: string]: string | Parts | undefined;
}

/** The keywords that describe a value and do not constrain it, that only the generator evaluates, or that have parts. */
const NOT_VALUES = new Set(
  (
    'description example title deprecated unique references assigned class notBlank binary ' +
    'name required in items properties additionalProperties oneOf discriminator'
  ).split(' '),
);

/** The module that was generated from a contract. */
interface GeneratedModule {
  /** Its name, with which the ids of operations start that another module has, too. */
  readonly module?: string | undefined;
  readonly prefix?: string | undefined;
  readonly isOwn?: (operationId: string) => boolean;
}

/**
 * Lists the differences of an OpenAPI document from a contract: operations, parameters, bodies, responses and the
 * structure of their schemas. Names of schemas, descriptions and examples are not compared.
 *
 * Those of the service that belong to another module, which had them before, are not compared.
 */
export function compareWithContract(
  contract: Json,
  document: Json,
  { module = '', prefix, isOwn = () => true }: GeneratedModule = {},
): string[] {
  const { operations } = planModule(readContract(contract, module, undefined, prefix));
  const published = readContract(document, '').operations;
  const routes = new Map(published.map((each) => [toRoute(each.method, each.path), each]));
  const comparison = new Comparison();
  for (const expected of operations) {
    const actual = routes.get(toRoute(expected.method, expected.path));
    const place = `${expected.method.toUpperCase()} ${expected.path}`;
    if (actual === undefined || isOwn(actual.operationId))
      comparison.compare(place, toParts(expected, expected), actual && toParts(actual, expected));
  }
  return comparison.differences;
}

class Comparison {
  readonly differences: string[] = [];
  /** What each of the parts of the contract was compared with, as classes may contain themselves. */
  private readonly compared = new Map<Parts, Parts[]>();

  compare(place: string, expected: Parts[string], actual: Parts[string]): void {
    if (typeof expected === 'object' && typeof actual === 'object')
      this.compareParts(place, expected, actual);
    else if (typeof expected === 'object' || typeof actual === 'object')
      this.report(place, actual === undefined ? 'is missing' : 'is not in the contract');
    else if (expected !== actual)
      this.report(place, `is ${shorten(actual)} instead of ${shorten(expected)}`);
  }

  private compareParts(place: string, expected: Parts, actual: Parts): void {
    const others = this.compared.get(expected) ?? [];
    if (others.includes(actual)) return;
    this.compared.set(expected, [...others, actual]);
    // Another type has other keywords.
    const isOther = expected[' type'] !== actual[' type'];
    const parts = isOther ? [' is required', ' type'] : Object.keys({ ...expected, ...actual });
    for (const part of parts) this.compare(`${place}${part}`, expected[part], actual[part]);
  }

  private report(place: string, text: string): void {
    this.differences.push(`${place}: ${text}`);
  }
}

const shorten = (value = 'missing'): string => value.slice(0, 200);

/** @param expected the operation of the contract, whose names of path parameters and errors are those that count */
function toParts(operation: Operation, expected: Operation): Parts {
  const { operationId, deprecated, isPublic, unsupportedQuery, body, success, errors } = operation;
  const parameters = [...operation.parameters, ...unsupportedQuery];
  // If another module has the id, the generator notes that it starts with the name of the module.
  const isOwn = !operationId.endsWith(toPascalCase(expected.operationId));
  const statuses = Object.keys(expected.errors).filter((status) => status in errors);
  return {
    ' operationId': JSON.stringify(isOwn ? operationId : expected.operationId),
    ' deprecated': String(deprecated),
    ' is public': String(isPublic),
    // Those of the path come first.
    ...Object.fromEntries(
      parameters.map((parameter, index) => {
        const { name } = parameter.in === 'path' ? expected.parameters[index]! : parameter;
        return [` ${parameter.in} parameter ${name}`, toPropertyParts(parameter)];
      }),
    ),
    ' body': body && { ' is required': String(body.required), ...toSchemaParts(body.schema) },
    ' status': String(success.status),
    ' response': success.schema && toSchemaParts(success.schema),
    ...Object.fromEntries(statuses.map((status) => [` response ${status}`, {}])),
  };
}

const toPropertyParts = ({ required, default: value, ...schema }: Property): Parts => ({
  ' is required': String(required),
  // What is required has no default.
  ...toSchemaParts(required ? schema : { ...schema, default: value }),
});

/** The keywords of a schema in the form in which the platform publishes them, and the schemas that it has. */
function toSchemaParts(schema: Schema): Parts {
  const { class: dto, properties = [], items, additionalProperties, oneOf = [] } = schema;
  const values = Object.entries(schema).filter(
    ([keyword, value]) => !NOT_VALUES.has(keyword) && value !== false,
  );
  const { example: _example, ...keywords } = toDocument({
    ...Object.fromEntries(values),
    ...(dto !== undefined && { type: 'object' }),
    ...(schema.enum && { enum: schema.enum.map(String).toSorted() }),
  });
  return {
    ...Object.fromEntries(
      Object.entries(keywords).map(([keyword, value]) => [` ${keyword}`, JSON.stringify(value)]),
    ),
    '': dto === undefined ? toObjectParts(properties) : toClassParts(dto),
    '[]': items && toSchemaParts(items),
    '.*':
      typeof additionalProperties === 'object' ? toSchemaParts(additionalProperties) : undefined,
    ...Object.fromEntries(oneOf.map((each, index) => [`.oneOf[${index}]`, toSchemaParts(each)])),
  };
}

const toObjectParts = (properties: readonly Property[]): Parts =>
  Object.fromEntries(properties.map((each) => [`.${each.name}`, toPropertyParts(each)]));

const classes = new WeakMap<DtoClass, Parts>();

/** The parts of a class, which may contain it. */
function toClassParts(dto: DtoClass): Parts {
  const known = classes.get(dto);
  if (known !== undefined) return known;
  const parts = {};
  classes.set(dto, parts);
  return Object.assign(parts, toObjectParts(dto.properties));
}
