import { type ArgumentMetadata, Injectable, type Type, ValidationPipe } from '@nestjs/common';
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
 * Nest's validation pipe, which accepts only the properties that a DTO declares, at every depth. Of a query, and of a
 * path, it passes only the parameters that the DTO declares, converted from text.
 */
@Injectable()
export class StrictValidationPipe extends ValidationPipe {
  constructor() {
    super({ transform: true });
  }

  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    // Decorators of parameters validate what they return.
    if (metadata.type === 'custom') return value;
    const dto = this.toValidate(metadata) ? metadata.metatype : undefined;
    if (metadata.type === 'body') return validateBody(dto, value);
    if (dto === undefined) {
      // PostgreSQL would reject NUL in a filter.
      const problems = isText(value) ? findProblems({}, value, metadata.data) : [];
      if (problems.length > 0) throw validationFailed(problems);
      return super.transform(value, metadata);
    }
    return validateBody(dto, isObject(value) ? parseParameters(dto, value) : value);
  }
}

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
 * Validates a JSON value by its schema as `validateBody` does. Neither class-transformer nor class-validator can end before
 * the value does: they get only what the schema allows. class-validator is called only for its own decorators.
 */
export async function validateJson(schema: Schema, value: unknown): Promise<unknown> {
  if (value === undefined) throw validationFailed(['request body is required']);
  const problems = findProblems(schema, value);
  if (problems.length > 0) throw validationFailed(problems);
  const converted = convert(schema, value);
  for (const [path, dto] of findDecorated(converted, '')) {
    const errors = await validate(dto, VALIDATOR_OPTIONS);
    const messages = errors.flatMap((error) => flattenErrors(error, dto, path));
    if (messages.length > 0) throw validationFailed(messages.slice(0, MAX_PROBLEMS));
  }
  return converted;
}

/** Whether a value is a parameter that is declared without a DTO: text, or an array of texts if it is repeated. */
const isText = (value: unknown): boolean =>
  [value].flat().every((each) => typeof each === 'string');

/** Converts the parameters that a DTO declares from text. */
function parseParameters(dto: Type, texts: object): object {
  const { declared } = getFields(dto);
  const given = Object.entries(texts).filter(([name]) => declared.has(name));
  return Object.fromEntries(
    given.map(([name, text]) => [name, parseParameter(declared.get(name)!, text)]),
  );
}

/** Finds the objects in a value whose classes have other decorators of class-validator, with their paths. */
function* findDecorated(value: unknown, path: string): Generator<[path: string, dto: object]> {
  if (typeof value !== 'object' || value === null) return;
  if (getFields(value.constructor as Type).isDecorated) yield [path, value];
  for (const [name, inner] of Object.entries(value))
    yield* findDecorated(inner, joinPath(value, path, name));
}

/** Returns the path of a property of an object, or of an item of an array. */
const joinPath = (parent: unknown, path: string, name: string): string =>
  Array.isArray(parent) ? `${path}[${name}]` : joinName(path, name);

/** The messages of an error, of a property of the parent, and of the errors nested in it. */
function flattenErrors(
  { property, value, constraints = {}, children = [] }: ValidationError,
  parent: unknown,
  parentPath: string,
): string[] {
  const path = joinPath(parent, parentPath, property);
  return [
    // Other messages start with the name of the property.
    ...Object.entries(constraints).map(([name, message]) =>
      name === 'whitelistValidation'
        ? `unknown property ${shorten(path)}`
        : joinName(parentPath, message),
    ),
    ...children.flatMap((child) => flattenErrors(child, value, path)),
  ];
}

function validationFailed(messages: string[]): ApiError {
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`);
}
