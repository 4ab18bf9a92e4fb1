import { type ArgumentMetadata, Injectable, type Type, ValidationPipe } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { validate, type ValidationError, type ValidatorOptions } from 'class-validator';
import { ApiError } from '../errors/api-error.js';
import { shorten } from '../errors/shorten.js';
import { findViolation, getDeclarations, isForeign, isObject } from './property.js';

const VALIDATOR_OPTIONS: ValidatorOptions = {
  whitelist: true,
  forbidNonWhitelisted: true,
  stopAtFirstError: true,
  forbidUnknownValues: false,
};

/** How many problems of a request are reported. */
const MAX_PROBLEMS = 10;

/**
 * Nest's validation pipe, which accepts only the properties that a DTO declares, at every depth. Of a
 * query, and of a path, it passes only the parameters that the DTO declares, converted from text; others are
 * ignored.
 *
 * @throws {ApiError} VALIDATION_FAILED with at most ten problems, each with the path of its property
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
 * @throws {ApiError} VALIDATION_FAILED with at most ten problems, each with the path of its property
 */
export async function validateBody<Dto extends object>(
  dto: Type<Dto> | undefined,
  value: unknown,
): Promise<Dto> {
  if (value === undefined) throw validationFailed(['request body is required']);
  if (!isObject(value)) throw validationFailed(['the body must be a JSON object']);
  if (dto !== undefined) return toDto(dto, value);
  rejectAny(findInheritedNames(value));
  return value as Dto;
}

/**
 * Does what Nest's pipe does with a value, without its checks for values that JSON cannot contain. Neither
 * class-transformer nor class-validator can end before the value does: they get only what the property decorators allow.
 */
async function toDto<Dto extends object>(dto: Type<Dto>, value: object): Promise<Dto> {
  rejectAny(findProblems(dto, value));
  // Of maps, and of what only class-validator checks.
  rejectAny(findInheritedNames(value));
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

/** Finds the properties whose name is a property of every object, which a check may mistake for a known one. */
function* findInheritedNames(value: object, path = ''): Generator<string> {
  for (const [name, inner] of Object.entries(value)) {
    if (name in Object.prototype || name === 'prototype')
      yield unknownProperty(joinPath(value, path, name));
    if (typeof inner === 'object' && inner !== null)
      yield* findInheritedNames(inner as object, joinPath(value, path, name));
  }
}

/** Finds the properties that a DTO does not declare, and those whose value its property decorators do not allow. */
function* findProblems(dto: Type, value: object, path = ''): Generator<string> {
  const declarations = getDeclarations(dto);
  const values = value as Record<string, unknown>;
  for (const name of Object.keys(values)) {
    const declared = declarations.get(name);
    const isKnown =
      declared === undefined ? isForeign(dto, name) : declared.options.readOnly !== true;
    if (!isKnown && values[name] !== undefined) yield unknownProperty(joinPath(value, path, name));
  }
  for (const [name, declaration] of declarations) {
    const inner = values[name];
    if (declaration.options.readOnly === true) continue;
    if (!declaration.conditions.every((isMet) => isMet(value, inner))) continue;
    const violation = findViolation(declaration, inner);
    const { getClass } = declaration.rules;
    if (violation === undefined && getClass === undefined) continue;
    const innerPath = joinPath(value, path, name);
    if (violation !== undefined) yield `${shorten(innerPath)}${violation}`;
    else if (Array.isArray(inner))
      for (const [index, item] of inner.entries())
        yield* findProblems(getClass!(), item as object, `${innerPath}[${index}]`);
    else yield* findProblems(getClass!(), inner as object, innerPath);
  }
}

/** @throws {ApiError} VALIDATION_FAILED with the first problems, if there are any; the search for more ends */
function rejectAny(problems: Iterable<string>): void {
  const found: string[] = [];
  for (const problem of problems) if (found.push(problem) === MAX_PROBLEMS) break;
  if (found.length > 0) throw validationFailed(found);
}

/** Returns the path of a property of an object, or of an item of an array. */
const joinPath = (parent: unknown, path: string, name: string): string =>
  Array.isArray(parent) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`;

const toApiError = (errors: ValidationError[]): ApiError =>
  validationFailed(errors.flatMap((error) => flattenErrors(error)).slice(0, MAX_PROBLEMS));

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
      name === 'whitelistValidation' ? unknownProperty(path) : joinPath({}, parentPath, message),
    ),
    ...children.flatMap((child) => flattenErrors(child, value, path)),
  ];
}

const unknownProperty = (path: string): string => `unknown property ${shorten(path)}`;

function validationFailed(messages: string[]): ApiError {
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`);
}
