import { applyDecorators, type Type as Class } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import { getMetadataStorage, registerDecorator, ValidateIf, ValidateNested } from 'class-validator';

/** The options that every property has. */
export interface PropertyOptions<Value = never> {
  /** The property may be omitted; null is still invalid, unless it is `nullable`. */
  readonly optional?: boolean;
  /** Null is a valid value, too; in a JSON merge patch, it removes the property. */
  readonly nullable?: boolean;
  readonly description: string;
  /** In the OpenAPI document; by default that of the type. */
  readonly example?: Value;
  /** The value of a property that a request omits. A JSON merge patch leaves an omitted property unchanged. */
  readonly default?: Value;
  /** The property is only in responses: a request that contains it is rejected, as for an unknown property. */
  readonly readOnly?: boolean;
  /**
   * The property is only in requests. To remove it from the responses of a controller, use
   * `@UseInterceptors(ClassSerializerInterceptor)` and `@SerializeOptions({ type: <DTO> })`.
   */
  readonly writeOnly?: boolean;
}

/** How the values of a property are documented and validated. */
export interface ValueRules {
  /** The schema of the values in the OpenAPI document. */
  readonly schema: ApiPropertyOptions;
  /** Returns what is wrong with a value, as a sentence that starts with its path; undefined if it is valid. */
  readonly validate: (value: unknown, path: string) => string | undefined;
  /** The class of an object, or of the items of an array. */
  readonly getClass?: () => Class;
  /** Converts a query parameter: text, or an array of texts. It returns what it cannot convert as it is. */
  readonly parse?: (parameter: unknown) => unknown;
  /**
   * Returns the rules of the value in a JSON merge patch, if they are others (RFC 7396, section 2).
   *
   * @param toPatch returns the DTO of a merge patch for the class of an object
   */
  readonly toPatch?: (toPatch: (dto: Class) => Class) => ValueRules;
}

/** What a decorator declares about a property. */
export class PropertyDeclaration {
  constructor(
    readonly options: PropertyOptions<unknown>,
    readonly rules: ValueRules,
  ) {}
}

/** A decorator of a property, which can also declare the items of an array or the values of a map. */
export type DeclaringDecorator = PropertyDecorator & { readonly declaration: PropertyDeclaration };

/** Declares a property of a DTO once, for the validation and for the OpenAPI document. */
export function Property(options: PropertyOptions<unknown>, rules: ValueRules): DeclaringDecorator {
  const { nullable = false, readOnly = false, writeOnly = false, description } = options;
  const { getClass } = rules;
  const hasDefault = options.default !== undefined;
  const optional = options.optional === true || hasDefault;
  const declaration = new PropertyDeclaration(options, rules);
  const decorator = applyDecorators(
    ApiProperty({
      required: !optional,
      description,
      ...(nullable ? toNullable(rules.schema) : rules.schema),
      ...(options.example === undefined ? {} : { example: options.example }),
      ...(hasDefault ? { default: options.default } : {}),
      ...(readOnly ? { readOnly } : {}),
      ...(writeOnly ? { writeOnly } : {}),
    } as ApiPropertyOptions),
    readOnly ? rejectValue(declaration) : validateValue(declaration),
    ...(optional ? [ValidateIf((_object, value) => value !== undefined)] : []),
    ...(nullable ? [ValidateIf((_object, value) => value !== null)] : []),
    ...(getClass === undefined ? [] : [ValidateNested(), Type(getClass)]),
    // class-transformer visits an omitted property only if it is exposed.
    ...(hasDefault
      ? [
          Expose({ toClassOnly: true }),
          Transform(
            ({ value }): unknown =>
              value === undefined ? structuredClone(options.default) : value,
            { toClassOnly: true },
          ),
        ]
      : []),
    ...(writeOnly ? [Exclude({ toPlainOnly: true })] : []),
  );
  return Object.assign(decorator, { declaration });
}

function validateValue(declaration: PropertyDeclaration): PropertyDecorator {
  const { validate } = declaration.rules;
  return (target, property) => {
    const path = String(property);
    const violation = (value: unknown): string | undefined =>
      value === undefined ? `${path} is missing` : validate(value, path);
    registerDecorator({
      name: 'property',
      target: target.constructor,
      propertyName: path,
      constraints: [declaration],
      validator: {
        validate: (value: unknown) => violation(value) === undefined,
        defaultMessage: (details) => violation(details?.value) ?? '',
      },
    });
  };
}

/** The constraint that a property violates if it is only in responses. */
export const READ_ONLY = 'readOnly';

function rejectValue(declaration: PropertyDeclaration): PropertyDecorator {
  return (target, property) =>
    registerDecorator({
      name: READ_ONLY,
      target: target.constructor,
      propertyName: String(property),
      constraints: [declaration],
      validator: { validate: (value: unknown) => value === undefined },
    });
}

/** Returns the schema for the same values and null, which `enum` must list, too (OpenAPI 3.0.3, proposal 2019-10-31). */
export function toNullable(schema: ApiPropertyOptions): ApiPropertyOptions {
  const { enum: values } = schema as { enum?: readonly unknown[] };
  return {
    ...schema,
    nullable: true,
    ...(values === undefined ? {} : { enum: [...values, null] }),
  };
}

const declarations = new WeakMap<Class, ReadonlyMap<string, PropertyDeclaration>>();

/** Returns the properties of a DTO that the decorators declare, by their names, with the inherited ones. */
export function getDeclarations(dto: Class): ReadonlyMap<string, PropertyDeclaration> {
  let properties = declarations.get(dto);
  if (properties === undefined) {
    properties = new Map(
      getMetadataStorage()
        .getTargetValidationMetadatas(dto, dto.name, false, false)
        .map(
          ({ propertyName, constraints }) => [propertyName, constraints?.[0] as unknown] as const,
        )
        .filter(
          (entry): entry is [string, PropertyDeclaration] =>
            entry[1] instanceof PropertyDeclaration,
        ),
    );
    declarations.set(dto, properties);
  }
  return properties;
}
