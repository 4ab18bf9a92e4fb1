import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { registerDecorator, ValidateIf } from 'class-validator';

/** The options that every property has. */
export interface PropertyOptions {
  /** The property may be omitted; null is still invalid. */
  readonly optional?: boolean;
  readonly description: string;
}

/**
 * Declares a property of a DTO once, for the validation and for the OpenAPI document.
 *
 * @param schema the OpenAPI schema of the property
 * @param validate returns what is wrong with a value, as the end of a sentence that starts with the
 *   name of the property; undefined if the value is valid
 */
export function Property(
  { optional = false, description }: PropertyOptions,
  schema: ApiPropertyOptions,
  validate: (value: unknown) => string | undefined,
): PropertyDecorator {
  const violation = (value: unknown): string | undefined =>
    value === undefined ? 'is missing' : validate(value);
  return applyDecorators(
    ApiProperty({ required: !optional, description, ...schema } as ApiPropertyOptions),
    ...(optional ? [ValidateIf((_object, value) => value !== undefined)] : []),
    (target: object, property: string | symbol) =>
      registerDecorator({
        name: 'property',
        target: target.constructor,
        propertyName: property as string,
        validator: {
          validate: (value: unknown) => violation(value) === undefined,
          defaultMessage: (details) => `${details?.property} ${violation(details?.value)}`,
        },
      }),
  );
}
