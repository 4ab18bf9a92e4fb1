import type { Type as Class } from '@nestjs/common';

type Scalar = string | number | boolean | null;

/**
 * A JSON Schema, as in OpenAPI 3.1, that can refer to DTOs. Without a type, a keyword applies only to values of its type, such
 * as `minLength` to strings. Without a maximum, the size of a value is limited only by that of the body.
 */
export interface Schema {
  /** A DTO is given as a function, because it may be declared later in the file. */
  readonly type?:
    'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object' | (() => Class<object>);
  /** The formats `int32`, `int64`, `float`, and those of `FORMATS` are validated; others are only published. */
  readonly format?: string;
  readonly enum?: readonly Scalar[];
  readonly const?: Scalar;
  /** Lengths are in Unicode code points. */
  readonly minLength?: number;
  readonly maxLength?: number;
  /** The string must contain a character that is neither white space nor a control character. Not together with `pattern`. */
  readonly notBlank?: boolean;
  /** Matches any part of the string, unless it has anchors. The only possible flag is `u`. */
  readonly pattern?: RegExp | string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  /** The schema of the items of an array. A query has a parameter for each item, such as `?tag=a&tag=b`. */
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  /** No two items may be equal as JSON. */
  readonly uniqueItems?: boolean;
  /** The properties of an object without a DTO. */
  readonly properties?: Readonly<Record<string, Schema>>;
  /** The schema of other properties, or whether they are allowed; by default only if there are no `properties`. */
  readonly additionalProperties?: Schema | boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  /** The DTOs of which `discriminator` selects one. Without a discriminator, the schemas are published, not enforced. */
  readonly oneOf?: readonly (Schema | (() => Class<object>))[];
  readonly anyOf?: readonly (Schema | (() => Class<object>))[];
  readonly discriminator?: {
    readonly propertyName: string;
    readonly mapping: Readonly<Record<string, () => Class<object>>>;
  };
  /** Null is a valid value, too; in a JSON merge patch, it removes the property. */
  readonly nullable?: boolean;
  /** The property may be omitted; null is still invalid, unless it is `nullable`. */
  readonly optional?: boolean;
  /** The value of a property that a request omits. A JSON merge patch leaves an omitted property unchanged. */
  readonly default?: unknown;
  /** The property is only in responses: a request that contains it is rejected, as for an unknown property. */
  readonly readOnly?: boolean;
  /**
   * The property is only in requests. Handlers must not return it: declare another class for responses, such as
   * `OmitType(<DTO>, ['password'])`. Nest's `ClassSerializerInterceptor` removes it, but not from a list of the resource kit.
   */
  readonly writeOnly?: boolean;
  readonly title?: string;
  readonly description?: string;
  /** By default, the example of the format. */
  readonly example?: unknown;
  readonly deprecated?: boolean;
}

export const isOptional = ({ optional, default: value }: Schema): boolean =>
  optional === true || value !== undefined;

/** Whether a JSON value is an object. */
export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
