import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { registerDecorator, ValidateIf } from 'class-validator';

/** What the declaration of every property says. */
export interface PropertyRules {
  /** The property may be left out; null is invalid all the same. */
  readonly optional?: boolean;
  readonly description: string;
}

/**
 * Declares a property of a DTO once, for the validation and for the OpenAPI document.
 *
 * @param document the schema of the property
 * @param problemOf what is wrong with a value, as the end of a sentence that the name of the property
 *   begins; undefined where nothing is
 */
export function Property(
  { optional = false, description }: PropertyRules,
  document: ApiPropertyOptions,
  problemOf: (value: unknown) => string | undefined,
): PropertyDecorator {
  const problem = (value: unknown): string | undefined =>
    value === undefined ? 'is missing' : problemOf(value);
  return applyDecorators(
    ApiProperty({ required: !optional, description, ...document } as ApiPropertyOptions),
    ...(optional ? [ValidateIf((_object, value) => value !== undefined)] : []),
    (target: object, property: string | symbol) =>
      registerDecorator({
        name: 'property',
        target: target.constructor,
        propertyName: property as string,
        validator: {
          validate: (value: unknown) => problem(value) === undefined,
          defaultMessage: (details) => `${details?.property} ${problem(details?.value)}`,
        },
      }),
  );
}
