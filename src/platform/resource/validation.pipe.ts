import { type ArgumentMetadata, Injectable, type Type, ValidationPipe } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { validate, type ValidationError, type ValidatorOptions } from 'class-validator';
import { ApiError } from '../errors/api-error.js';
import { getDeclarations, isObject, READ_ONLY } from './property.js';

const VALIDATOR_OPTIONS: ValidatorOptions = {
  whitelist: true,
  forbidNonWhitelisted: true,
  stopAtFirstError: true,
  forbidUnknownValues: false,
};

/** The constraints that an unknown property violates, and one that is only in responses. */
const UNKNOWN: ReadonlySet<string> = new Set(['whitelistValidation', READ_ONLY]);

/**
 * Nest's validation pipe, which accepts only the properties that a DTO declares, at every depth. Of a
 * query, and of a path, it passes only the parameters that the DTO declares, converted from text; others are
 * ignored.
 *
 * @throws {ApiError} VALIDATION_FAILED with every problem, each with the path of its property
 */
@Injectable()
export class StrictValidationPipe extends ValidationPipe {
  constructor() {
    super({ ...VALIDATOR_OPTIONS, transform: true, exceptionFactory: toApiError });
  }

  override transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    const { type, metatype, data } = metadata;
    const dto = this.toValidate(metadata) ? metatype : undefined;
    if (type === 'body') return validateBody(dto, value);
    if ((type === 'query' || type === 'param') && dto !== undefined && data === undefined)
      return toDto(dto, parseParameters(dto, value as Record<string, unknown>));
    return super.transform(value, metadata);
  }
}

/**
 * Validates a body, or another JSON value such as the result of a JSON merge patch.
 *
 * @param dto the class that the value is converted to; if it is undefined, any object is valid
 * @throws {ApiError} VALIDATION_FAILED with every problem, each with the path of its property
 */
export async function validateBody<Dto extends object>(
  dto: Type<Dto> | undefined,
  value: unknown,
): Promise<Dto> {
  if (value === undefined) throw validationFailed(['request body is required']);
  if (!isObject(value)) throw validationFailed(['the body must be a JSON object']);
  // class-validator treats what every object inherits, such as `constructor`, as a known property.
  const inherited = findInheritedNames(value);
  if (inherited.length > 0) throw validationFailed(inherited.map(unknownProperty));
  return dto === undefined ? (value as Dto) : toDto(dto, value);
}

/**
 * Does what Nest's pipe does with a value, without its checks for values that JSON cannot contain:
 * 2.6 µs instead of 5.7.
 */
async function toDto<Dto extends object>(dto: Type<Dto>, value: object): Promise<Dto> {
  const instance = plainToInstance(dto, value);
  const errors = await validate(instance, VALIDATOR_OPTIONS);
  if (errors.length > 0) throw toApiError(errors);
  return instance;
}

/** Converts the parameters that a DTO declares from text. */
function parseParameters(dto: Type, texts: Record<string, unknown>): Record<string, unknown> {
  const parameters: Record<string, unknown> = {};
  for (const [name, { rules }] of getDeclarations(dto)) {
    if (Object.hasOwn(texts, name)) parameters[name] = rules.parse?.(texts[name]) ?? texts[name];
  }
  return parameters;
}

/** Returns the paths of all properties whose name is a property of every object. */
function findInheritedNames(value: object, path = '', found: string[] = []): string[] {
  for (const name of Object.keys(value)) {
    const inner = (value as Record<string, unknown>)[name];
    if (name in Object.prototype || name === 'prototype') found.push(joinPath(value, path, name));
    if (typeof inner === 'object' && inner !== null)
      findInheritedNames(inner, joinPath(value, path, name), found);
  }
  return found;
}

/** Returns the path of a property of an object, or of an item of an array. */
const joinPath = (parent: unknown, path: string, name: string): string =>
  Array.isArray(parent) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`;

const toApiError = (errors: ValidationError[]): ApiError =>
  validationFailed(errors.flatMap((error) => flattenErrors(error)));

/**
 * The messages of an error and of the errors nested in it.
 *
 * @param parent the value that contains the property, at this path
 */
function flattenErrors(
  { property, value, constraints = {}, children = [] }: ValidationError,
  parent?: unknown,
  parentPath = '',
): string[] {
  const path = joinPath(parent, parentPath, property);
  return [
    ...Object.entries(constraints).map(([name, message]) =>
      // Other messages start with the name of the property.
      UNKNOWN.has(name) ? unknownProperty(path) : joinPath({}, parentPath, message),
    ),
    ...children.flatMap((child) => flattenErrors(child, value, path)),
  ];
}

const unknownProperty = (path: string): string => `unknown property ${path}`;

function validationFailed(messages: string[]): ApiError {
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`);
}
