import { type ArgumentMetadata, Injectable, type Type, ValidationPipe } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { validate, type ValidationError, type ValidatorOptions } from 'class-validator';
import { ApiError } from '../../errors/api-error.js';

const VALIDATOR_OPTIONS: ValidatorOptions = {
  whitelist: true,
  forbidNonWhitelisted: true,
  stopAtFirstError: true,
  forbidUnknownValues: false,
};

/**
 * Nest's validation, which takes exactly the properties that a DTO declares, and says of a body that
 * is no object what is wrong with it.
 *
 * @throws {ApiError} VALIDATION_FAILED
 */
@Injectable()
export class StrictValidationPipe extends ValidationPipe {
  constructor() {
    super({
      ...VALIDATOR_OPTIONS,
      transform: true,
      exceptionFactory: (errors) =>
        validationFailed(errors.flatMap((error) => flattenErrors(error))),
    });
  }

  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (metadata.type !== 'body') return super.transform(value, metadata);
    if (value === undefined) throw validationFailed(['the body is missing: send a JSON object']);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw validationFailed(['the body must be a JSON object']);
    }
    // class-validator takes what every object inherits, such as constructor, for a known property.
    const inherited = Object.keys(value).filter(
      (key) => key in Object.prototype || key === 'prototype',
    );
    if (inherited.length > 0)
      throw validationFailed(inherited.map((key) => `property ${key} should not exist`));
    if (!this.toValidate(metadata)) return value;
    return this.toDto(value, metadata.metatype!);
  }

  /**
   * What Nest's pipe does with a body, less its care for values that JSON cannot hold: 2.6 us instead
   * of 5.7.
   */
  private async toDto(value: object, dto: Type): Promise<object> {
    const body: object = plainToInstance(dto, value);
    const errors = await validate(body, VALIDATOR_OPTIONS);
    if (errors.length > 0) throw this.exceptionFactory(errors);
    return body;
  }
}

/** The messages of an error and of those inside it, which begin with the path of the property. */
function flattenErrors({ property, constraints, children }: ValidationError, path = ''): string[] {
  return [
    ...Object.values(constraints ?? {}).map((message) => path + message),
    ...(children ?? []).flatMap((child) => flattenErrors(child, `${path}${property}.`)),
  ];
}

function validationFailed(messages: string[]): ApiError {
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`);
}
