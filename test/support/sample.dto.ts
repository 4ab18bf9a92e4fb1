import { Property } from '../../src/platform/resource/property.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';

const optional = { optional: true, description: 'A value.' };
const integer = {
  type: 'integer',
  format: 'int32',
  example: 1,
  description: 'An integer.',
} as const;
const digit = {
  type: 'integer',
  minimum: 0,
  maximum: 9,
  example: 1,
  description: 'A digit.',
} as const;
const number = { type: 'number', example: 1.5, description: 'A number.' } as const;
const statuses = { enum: ['available', 'sold'], description: 'The status.' };

export class Tag {
  @Property({ type: 'integer', ...optional, format: 'int32', example: 1 }) id?: number;
  @Property({ type: 'string', maxLength: 10, description: 'The name.', example: 'new' })
  name!: string;
  @Property({ type: 'string', enum: ['red', 'blue'], default: 'red', description: 'The color.' })
  color!: string;
  @Property({ type: () => Tag, ...optional }) parent?: Tag;
  @Property({ type: 'array', ...optional, items: digit, maxItems: 2 }) codes?: number[];
}

/** A body with properties of every kind. */
export class Sample {
  @Property({
    type: 'integer',
    minimum: 1,
    readOnly: true,
    description: 'Assigned by the service.',
  })
  id!: number;
  @Property({ type: () => Tag, ...optional }) category?: Tag;
  @Property({
    type: 'array',
    ...optional,
    items: { type: () => Tag },
    maxItems: 3,
    uniqueItems: true,
  })
  tags?: Tag[];
  @Property({
    type: 'array',
    ...optional,
    items: { type: 'string', format: 'uri', description: 'The address of a photo.' },
    minItems: 1,
    maxItems: 3,
    uniqueItems: true,
  })
  photoUrls?: string[];
  @Property({
    type: 'array',
    ...optional,
    items: { type: 'array', items: number, minItems: 2, maxItems: 2, description: 'A point.' },
    maxItems: 3,
  })
  outline?: number[][];
  @Property({ type: 'object', ...optional, additionalProperties: integer, maxProperties: 2 })
  parts?: Record<string, number>;
  @Property({ type: 'object', ...optional, additionalProperties: { type: 'string', ...statuses } })
  sizes?: Record<string, string>;
  @Property({
    type: 'string',
    ...optional,
    minLength: 2,
    maxLength: 20,
    notBlank: true,
    example: 'ann',
  })
  name?: string;
  @Property({ type: 'string', ...optional, maxLength: 20, pattern: /^\p{Lu}{3}$/u, example: 'ABC' })
  code?: string;
  @Property({ type: 'integer', ...optional, format: 'int32', example: 1 }) count?: number;
  @Property({ type: 'number', ...optional, example: 1.5 }) weight?: number;
  @Property({ type: 'boolean', ...optional }) fragile?: boolean;
  @Property({ type: 'string', format: 'date', ...optional }) releasedOn?: string;
  @Property({ type: 'string', format: 'date-time', ...optional }) soldAt?: string;
  @Property({ type: 'string', format: 'uuid', ...optional }) orderKey?: string;
  @Property({
    type: 'string',
    format: 'decimal',
    ...optional,
    pattern: /^-?\d{1,4}(\.\d{1,2})?$/,
    example: '9.99',
  })
  price?: string;
  @Property({
    type: 'string',
    format: 'decimal',
    ...optional,
    pattern: /^-?0(\.\d{1,2})?$/,
    example: '0.5',
  })
  share?: string;
  @Property({ type: 'string', ...statuses, default: 'available' }) status!: string;
  @Property({ type: 'array', items: digit, maxItems: 3, default: [7], description: 'Digits.' })
  digits!: number[];
  @Property({ type: 'string', ...optional, maxLength: 20, writeOnly: true, example: 'x' })
  secret?: string;
  // Without an upper limit, as in documents that others have published.
  @Property({ type: 'string', ...optional, minLength: 2, nullable: true, example: 'two' }) note?:
    string | null;
  @Property({ type: 'array', ...optional, items: integer, minItems: 1, example: [3] })
  numbers?: number[];
  @Property({ type: 'object', ...optional, additionalProperties: integer }) counts?: Record<
    string,
    number
  >;
}

export class SamplePageParams {
  @Property({
    type: 'integer',
    minimum: 1,
    maximum: 99,
    description: 'The number of the page.',
    example: 4,
  })
  page!: number;
}

export class SamplePatch extends MergePatch(Sample, [
  'category',
  'tags',
  'photoUrls',
  'parts',
  'orderKey',
  'status',
]) {}

/** A query with parameters of every type. */
export class SampleQuery {
  @Property({ type: 'string', ...statuses, optional: true }) status?: string;
  @Property({
    type: 'integer',
    minimum: 1,
    maximum: 100,
    default: 20,
    example: 20,
    description: 'Limit.',
  })
  limit!: number;
  @Property({ type: 'number', ...optional, example: 1.5 }) minWeight?: number;
  @Property({ type: 'boolean', ...optional }) inStock?: boolean;
  @Property({
    type: 'array',
    ...optional,
    items: { type: 'integer', minimum: 1, description: 'An id.' },
    maxItems: 3,
  })
  tag?: number[];
}
