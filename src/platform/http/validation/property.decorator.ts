import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { registerDecorator, ValidateIf } from 'class-validator';

/** What the declaration of every property says. */
export interface PropertyOptions {
  /** The property may be left out; null is invalid all the same. */
  readonly optional?: boolean;
  readonly description: string;
}

/**
 * Declares a property of a DTO once, for the validation and for the OpenAPI document.
 *
 * @param document the schema of the property
 * @param validate what is wrong with a value, as the end of a sentence that the name of the property
 *   begins; undefined where nothing is
 */
export function Property(
  { optional = false, description }: PropertyOptions,
  document: ApiPropertyOptions,
  validate: (value: unknown) => string | undefined,
): PropertyDecorator {
  const violation = (value: unknown): string | undefined =>
    value === undefined ? 'is missing' : validate(value);
  return applyDecorators(
    ApiProperty({ required: !optional, description, ...document } as ApiPropertyOptions),
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
