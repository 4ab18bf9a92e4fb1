import { applyDecorators, type Type as Class } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import {
  getMetadataStorage,
  ValidateBy,
  ValidateIf,
  ValidateNested,
  ValidationTypes,
} from 'class-validator';

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
  /** Returns what is wrong with a value, as the text that follows its path in a message; undefined if it is valid. */
  readonly check: (value: unknown) => string | undefined;
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
export interface PropertyDeclaration {
  readonly options: PropertyOptions<unknown>;
  readonly rules: ValueRules;
}

/** A decorator of a property, which can also declare the items of an array or the values of a map. */
export type DeclaringDecorator = PropertyDecorator & { readonly declaration: PropertyDeclaration };

/** Declares a property of a DTO once, for the validation and for the OpenAPI document. */
export function Property(options: PropertyOptions<unknown>, rules: ValueRules): DeclaringDecorator {
  const { nullable = false, description, readOnly, writeOnly, default: defaultValue } = options;
  const { getClass } = rules;
  const schema = nullable ? toNullable(rules.schema) : rules.schema;
  const optional = options.optional === true || defaultValue !== undefined;
  const declaration: PropertyDeclaration = { options, rules };
  const decorators = [
    ApiProperty({
      required: !optional,
      description,
      ...schema,
      example: options.example ?? schema.example,
      default: defaultValue,
      readOnly,
      writeOnly,
    } as ApiPropertyOptions),
    Validate(declaration),
  ];
  if (optional) decorators.push(ValidateIf((_object, value) => value !== undefined));
  if (nullable) decorators.push(ValidateIf((_object, value) => value !== null));
  if (getClass !== undefined) decorators.push(ValidateNested(), Type(getClass));
  if (defaultValue !== undefined)
    decorators.push(
      // class-transformer visits an omitted property only if it is exposed.
      Expose({ toClassOnly: true }),
      Transform(
        ({ value }): unknown => (value === undefined ? structuredClone(defaultValue) : value),
        { toClassOnly: true },
      ),
    );
  if (writeOnly === true) decorators.push(Exclude({ toPlainOnly: true }));
  return Object.assign(applyDecorators(...decorators), { declaration });
}

/** The name of the constraint of every declared property. */
const VALID = 'valid';

function Validate(declaration: PropertyDeclaration): PropertyDecorator {
  return ValidateBy({
    name: VALID,
    constraints: [declaration],
    validator: {
      validate: (value) => findViolation(declaration, value) === undefined,
      defaultMessage: (details) =>
        `${details!.property}${findViolation(declaration, details!.value)}`,
    },
  });
}

/** Returns what is wrong with a value, as the text that follows its path in a message. */
export function findViolation(
  { options, rules }: PropertyDeclaration,
  value: unknown,
): string | undefined {
  if (options.readOnly === true) return value === undefined ? undefined : ' is read-only';
  return value === undefined ? ' is missing' : rules.check(value);
}

/** Returns the schema for the same values and null, which `enum` must list, too (OpenAPI 3.0.3, proposal 2019-10-31). */
export function toNullable(schema: ApiPropertyOptions): ApiPropertyOptions {
  const { enum: values } = schema as { enum?: readonly unknown[] };
  return { ...schema, nullable: true, ...(values && { enum: [...values, null] }) };
}

/** A declared property of a class, which may be derived from the one with the decorator. */
interface DeclaredProperty extends PropertyDeclaration {
  /** The value is validated if all are true, such as those of `optional` and of Nest's PartialType. */
  readonly conditions: readonly ((object: object, value: unknown) => boolean)[];
}

const declarations = new WeakMap<Class, ReadonlyMap<string, DeclaredProperty>>();

/** Returns the properties of a DTO that the decorators declare, by their names, with the inherited ones. */
export function getDeclarations(dto: Class): ReadonlyMap<string, DeclaredProperty> {
  const known = declarations.get(dto);
  if (known !== undefined) return known;
  const metadata = getValidationMetadata(dto);
  const found = new Map<string, DeclaredProperty>();
  for (const { name, propertyName, constraints } of metadata) {
    if (name !== VALID) continue;
    const conditions = metadata.filter(
      (each) =>
        each.propertyName === propertyName && each.type === ValidationTypes.CONDITIONAL_VALIDATION,
    );
    found.set(propertyName, {
      ...(constraints[0] as PropertyDeclaration),
      conditions: conditions.map((each) => each.constraints[0] as () => boolean),
    });
  }
  declarations.set(dto, found);
  return found;
}

/** Returns whether a DTO declares a property only with decorators of class-validator. */
export const isForeign = (dto: Class, name: string): boolean =>
  getValidationMetadata(dto).some(({ propertyName }) => propertyName === name);

// Nest's OmitType, PickType and PartialType copy the metadata of class-validator.
const getValidationMetadata = (dto: Class) =>
  getMetadataStorage().getTargetValidationMetadatas(dto, dto.name, false, false);

/** Whether a JSON value is an object. */
export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
