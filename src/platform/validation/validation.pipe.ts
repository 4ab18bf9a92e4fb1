import {
  type ArgumentMetadata,
  Injectable,
  type PipeTransform,
  type Type,
  ValidationPipe,
} from '@nestjs/common';
// Nest has no public API that returns the pipes of a parameter.
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { validate, type ValidationError, type ValidatorOptions } from 'class-validator';
import { ApiError } from '../errors/api-error.js';
import { shorten } from '../errors/shorten.js';
import { isObject, type Schema } from './schema.js';
import {
  convert,
  findProblems,
  getFields,
  joinName,
  MAX_PROBLEMS,
  parseParameter,
} from './schema-rules.js';

const VALIDATOR_OPTIONS: ValidatorOptions = {
  whitelist: true,
  forbidNonWhitelisted: true,
  stopAtFirstError: true,
  forbidUnknownValues: false,
};

/**
 * Nest's validation pipe, which rejects properties that a DTO does not declare, at every depth. Parameters of queries and
 * paths are converted from text, and undeclared ones are ignored.
 */
@Injectable()
export class StrictValidationPipe extends ValidationPipe {
  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    const { type, data } = metadata;
    // Custom decorators of parameters validate what they return.
    if (type === 'custom') return value;
    const dto = this.toValidate(metadata) ? metadata.metatype : undefined;
    if (data !== undefined) return validateNamedValue(dto, value, data);
    if (type === 'body') return validateBody(dto, value);
    if (dto === undefined) return value;
    return validateBody(dto, parseParameters(dto, value as object));
  }
}

/** Validates the value of a decorator with a name, such as `@Query('page')` or `@Body('name')`. */
async function validateNamedValue(dto: Type | undefined, value: unknown, name: string) {
  if (dto !== undefined && getFields(dto).declared.size > 0)
    return validateJson({ type: () => dto }, value ?? {}, name);
  // PostgreSQL would reject NUL in a filter.
  return requireValid({ optional: true }, value, name);
}

/** The schemas of the types that TypeScript emits for parameters. */
const TYPE_SCHEMAS = new Map<unknown, Schema>([
  [String, { type: 'string', optional: true }],
  [Number, { type: 'number', optional: true }],
  [Boolean, { type: 'boolean', optional: true }],
]);

/** Validates the value of a decorator with a name by its TypeScript type. Parameters are converted from text before. */
const typePipe: PipeTransform = {
  transform(value: unknown, { type, metatype, data }: ArgumentMetadata) {
    const schema = type === 'custom' ? undefined : TYPE_SCHEMAS.get(metatype);
    if (schema === undefined) return value;
    return requireValid(schema, type === 'body' ? value : parseParameter(schema, value), data);
  },
};

/**
 * Adds a pipe to each decorator of a handler with a name, such as `@Query('page')`, that converts and validates the value by its
 * TypeScript type. A decorator with other pipes keeps only these, as in Nest; a global pipe would run before them.
 *
 * @throws {TypeError} if the class of a parameter is not supported
 */
export function prepareParameters(controller: Type<object>, name: string): void {
  const declared: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, name);
  for (const { data, factory, pipes } of Object.values((declared ?? {}) as NamedArguments))
    if (typeof data === 'string' && factory === undefined && pipes.length === 0)
      pipes.push(typePipe);
  const types: unknown = Reflect.getMetadata(
    'design:paramtypes',
    controller.prototype as object,
    name,
  );
  for (const type of (types ?? []) as (Type | undefined)[]) if (type !== undefined) getFields(type);
}

/** The metadata of Nest's decorators of parameters; only custom decorators have a factory. */
type NamedArguments = Record<string, { data?: unknown; factory?: unknown; pipes: unknown[] }>;

/**
 * Validates a body, or another JSON value such as the result of a JSON merge patch.
 *
 * @param dto the class that the value is converted to; if it is undefined, any object is valid
 * @throws {ApiError} VALIDATION_FAILED with at most ten problems, each with the path of its property
 */
export async function validateBody<Dto extends object>(
  dto: Type<Dto> | undefined,
  value: unknown,
): Promise<Dto> {
  if (value !== undefined && !isObject(value))
    throw validationFailed(['the body must be a JSON object']);
  return (await validateJson(dto === undefined ? {} : { type: () => dto }, value)) as Dto;
}

/**
 * Validates a JSON value by its schema, and converts the objects in it to DTOs. The schema is checked first, because
 * class-transformer and class-validator read a whole value even after an error.
 *
 * @param name the name of the value, if it is a property of the body
 */
export async function validateJson(schema: Schema, value: unknown, name = ''): Promise<unknown> {
  if (value === undefined) throw validationFailed(['request body is required']);
  const converted = convert(schema, requireValid(schema, value, name));
  for (const [path, dto] of findDecorated(converted, name)) {
    const errors = await validate(dto, VALIDATOR_OPTIONS);
    const messages = errors.flatMap((error) => flattenErrors(error, dto, path));
    if (messages.length > 0) throw validationFailed(messages.slice(0, MAX_PROBLEMS));
  }
  return converted;
}

/** Returns a value if it is valid. @throws {ApiError} VALIDATION_FAILED */
function requireValid(schema: Schema, value: unknown, name?: string): unknown {
  const problems = findProblems(schema, value, name);
  if (problems.length > 0) throw validationFailed(problems);
  return value;
}

function parseParameters(dto: Type, texts: object): object {
  const { declared } = getFields(dto);
  const given = Object.entries(texts).filter(([name]) => declared.has(name));
  return Object.fromEntries(
    given.map(([name, text]) => [name, parseParameter(declared.get(name)!, text)]),
  );
}

/** Finds the objects whose classes have decorators of class-validator besides `@Property`, with their paths. */
function* findDecorated(value: unknown, path: string): Generator<[path: string, dto: object]> {
  if (typeof value !== 'object' || value === null) return;
  if (getFields(value.constructor as Type).hasOtherDecorators) yield [path, value];
  for (const [name, inner] of Object.entries(value))
    yield* findDecorated(inner, joinPath(value, path, name));
}

const joinPath = (parent: unknown, path: string, name: string): string =>
  Array.isArray(parent) ? `${path}[${name}]` : joinName(path, name);

function flattenErrors(
  { property, value, constraints = {}, children = [] }: ValidationError,
  parent: unknown,
  parentPath: string,
): string[] {
  const path = joinPath(parent, parentPath, property);
  return [
    // All other messages already start with the name of the property.
    ...Object.entries(constraints).map(([name, message]) =>
      name === 'whitelistValidation'
        ? `unknown property ${shorten(path)}`
        : joinName(parentPath, message),
    ),
    ...children.flatMap((child) => flattenErrors(child, value, path)),
  ];
}

const validationFailed = (messages: string[]): ApiError =>
  new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`);
