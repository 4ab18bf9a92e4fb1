/**
 * Compares the OpenAPI document of the service with a contract. Both are read as the generator reads a contract, and
 * the contract is planned as it would be generated: so what the generator notes is no difference.
 */
import { isDeepStrictEqual } from 'node:util';
import { getProperties, type Operation, type Property, type Schema } from '../generator/model.js';
import { toPascalCase } from '../generator/names.js';
import { readContract, toRoute } from '../generator/read/contract.js';
import type { Json } from '../generator/read/document.js';
import { planModule } from '../generator/resources.js';

/** The limits that the platform adds to formats: numbers of JSON are exact up to 2^53-1 (RFC 8259, section 6). */
const FORMAT_LIMITS: Readonly<Record<string, Schema>> = {
  int32: { minimum: -(2 ** 31), maximum: 2 ** 31 - 1 },
  int64: { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
  'date-time': { maxLength: 64 },
  email: { maxLength: 254 },
  uri: { maxLength: 2048 },
};

/** The keywords that describe a value and do not constrain it, that only the generator evaluates, or that have parts. */
const NOT_VALUES = new Set(
  (
    'description example title deprecated unique references class notBlank ' +
    'name required in items properties additionalProperties oneOf discriminator'
  ).split(' '),
);

/**
 * Lists the differences of an OpenAPI document from a contract: operations, parameters, bodies, responses and the
 * structure of their schemas. Names of schemas, descriptions and examples are not compared.
 *
 * @param isOwn whether the module of the contract has an operation; one that the service had before is not compared
 */
export function compareWithContract(
  contract: Json,
  document: Json,
  isOwn: (operationId: string) => boolean = () => true,
): string[] {
  const plan = planModule(readContract(contract, ''));
  const actual = readContract(document, '');
  const routes = new Map(actual.operations.map((each) => [toRoute(each.method, each.path), each]));
  const comparison = new Comparison();
  for (const expected of plan.operations) {
    const operation = routes.get(toRoute(expected.method, expected.path));
    const place = `${expected.method.toUpperCase()} ${expected.path}`;
    if (operation === undefined) comparison.report(place, 'is missing');
    else if (isOwn(operation.operationId)) comparison.compareOperations(place, expected, operation);
  }
  return comparison.differences;
}

class Comparison {
  readonly differences: string[] = [];
  /** The pairs of classes that are compared, as classes may contain themselves. */
  private readonly compared = new Set<string>();

  report(place: string, text: string): void {
    this.differences.push(`${place}: ${text}`);
  }

  compareOperations(place: string, expected: Operation, actual: Operation): void {
    // If another module has the id, the generator notes that it starts with the name of the module.
    if (!actual.operationId.endsWith(toPascalCase(expected.operationId)))
      this.compareValues(`${place} operationId`, expected.operationId, actual.operationId);
    this.compareValues(`${place} deprecated`, expected.deprecated, actual.deprecated);
    this.compareValues(`${place} is public`, expected.isPublic, actual.isPublic);
    for (const [index, parameter] of expected.parameters.entries()) {
      const name = `${place} ${parameter.in} parameter ${parameter.name}`;
      // Those of the path come first, and may have other names.
      const other =
        parameter.in === 'path'
          ? actual.parameters[index]
          : actual.parameters.find((each) => each.in === 'query' && each.name === parameter.name);
      if (other === undefined) this.report(name, 'is missing');
      else this.compareProperties(name, parameter, other);
    }
    for (const { in: kind, name } of actual.parameters)
      if (kind === 'query' && !expected.parameters.some((each) => each.name === name))
        this.report(`${place} query parameter ${name}`, 'is not in the contract');
    this.compareValues(`${place} body is required`, expected.body?.required, actual.body?.required);
    this.compareSchemas(`${place} body`, expected.body?.schema, actual.body?.schema);
    this.compareValues(`${place} status`, expected.success.status, actual.success.status);
    this.compareSchemas(`${place} response`, expected.success.schema, actual.success.schema);
    for (const status of Object.keys(expected.errors))
      if (!(status in actual.errors)) this.report(`${place} response ${status}`, 'is missing');
  }

  private compareValues(place: string, expected: unknown, actual: unknown): void {
    if (!isDeepStrictEqual(expected, actual))
      this.report(place, `is ${show(actual)} instead of ${show(expected)}`);
  }

  private compareProperties(place: string, expected: Property, actual: Property): void {
    this.compareValues(`${place} is required`, expected.required, actual.required);
    // What is required has no default.
    const { default: _default, ...required } = expected;
    this.compareSchemas(place, expected.required ? required : expected, actual);
  }

  private compareSchemas(
    place: string,
    expected: Schema | undefined,
    actual: Schema | undefined,
  ): void {
    if (expected === undefined || actual === undefined) {
      if (expected !== actual)
        this.report(place, actual === undefined ? 'is missing' : 'is not in the contract');
      return;
    }
    if (expected.class !== undefined && actual.class !== undefined) {
      const pair = `${expected.class.name} ${actual.class.name}`;
      if (this.compared.has(pair)) return;
      this.compared.add(pair);
    }
    const [left, right] = [expand(expected), expand(actual)];
    for (const keyword of new Set([...Object.keys(left.keywords), ...Object.keys(right.keywords)]))
      this.compareValues(`${place} ${keyword}`, left.keywords[keyword], right.keywords[keyword]);
    for (const property of left.properties) {
      const other = right.properties.find(({ name }) => name === property.name);
      if (other === undefined) this.report(`${place}.${property.name}`, 'is missing');
      else this.compareProperties(`${place}.${property.name}`, property, other);
    }
    for (const { name } of right.properties)
      if (!left.properties.some((property) => property.name === name))
        this.report(`${place}.${name}`, 'is not in the contract');
    if (expected.items !== undefined && actual.items !== undefined)
      this.compareSchemas(`${place}[]`, expected.items, actual.items);
    const [values, otherValues] = [expected.additionalProperties, actual.additionalProperties];
    if (typeof values === 'object' && typeof otherValues === 'object')
      this.compareSchemas(`${place}.*`, values, otherValues);
    for (const [index, branch] of (expected.oneOf ?? []).entries())
      this.compareSchemas(`${place}.oneOf[${index}]`, branch, actual.oneOf?.[index]);
  }
}

/** The keywords of a schema that are values, in one form, and its properties, which may be those of its class. */
function expand(schema: Schema): {
  readonly keywords: Json;
  readonly properties: readonly Property[];
} {
  const format =
    schema.type === 'integer' ? (schema.format === 'int32' ? 'int32' : 'int64') : schema.format;
  const limits = FORMAT_LIMITS[format ?? ''] ?? {};
  const keywords = Object.entries(schema).filter(
    ([keyword, value]) =>
      !NOT_VALUES.has(keyword) &&
      value !== undefined &&
      value !== false &&
      // OpenAPI 3.0 has it only beside a type.
      !(keyword === 'nullable' && schema.oneOf !== undefined) &&
      // What the platform publishes for a number without a format, and for a URI.
      !(keyword === 'format' && ['int32', 'int64', 'double'].includes(String(value))) &&
      !(keyword === 'pattern' && schema.format === 'uri') &&
      limits[keyword as keyof Schema] !== value,
  );
  return {
    keywords: {
      ...Object.fromEntries(keywords),
      ...(schema.class !== undefined && { type: 'object' }),
      ...(schema.enum && { enum: new Set(schema.enum) }),
      ...(schema.binary && { binary: undefined }),
    },
    properties: getProperties(schema) ?? [],
  };
}

const show = (value: unknown): string =>
  (value === undefined ? 'missing' : JSON.stringify(value)).slice(0, 200);
