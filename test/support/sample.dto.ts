import { Property } from '../../src/platform/resource/property.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';

const optional = { optional: true, description: 'A value.' };
const integer = { type: 'integer', format: 'int32', example: 1 } as const;
const digit = { type: 'integer', minimum: 0, maximum: 9 } as const;
const statuses = { enum: ['available', 'sold'] };
const text = { type: 'string', ...optional } as const;
const list = { type: 'array', ...optional } as const;
const map = { type: 'object', ...optional } as const;
const point = { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 } as const;
const price = { format: 'decimal', pattern: /^-?\d{1,4}(\.\d{1,2})?$/ };
const share = { format: 'decimal', pattern: /^-?0(\.\d{1,2})?$/ };
const photos = { items: { type: 'string', format: 'uri' }, minItems: 1, maxItems: 3 } as const;

export class Tag {
  @Property({ ...integer, ...optional }) id?: number;
  @Property({ type: 'string', maxLength: 10 }) name!: string;
  @Property({ type: 'string', enum: ['red', 'blue'], default: 'red' }) color!: string;
  @Property({ type: () => Tag, ...optional }) parent?: Tag;
  @Property({ ...list, items: digit, maxItems: 2 }) codes?: number[];
}

/** A body with properties of every kind. */
export class Sample {
  @Property({ type: 'integer', minimum: 1, readOnly: true }) id!: number;
  @Property({ type: () => Tag, ...optional }) category?: Tag;
  @Property({ ...list, items: { type: () => Tag }, maxItems: 3, uniqueItems: true }) tags?: Tag[];
  @Property({ ...list, ...photos, uniqueItems: true }) photoUrls?: string[];
  @Property({ ...list, items: point, maxItems: 3 }) outline?: number[][];
  @Property({ ...map, additionalProperties: integer, maxProperties: 2 })
  parts?: Record<string, number>;
  @Property({ ...map, additionalProperties: { type: 'string', ...statuses } })
  sizes?: Record<string, string>;
  @Property({ ...text, minLength: 2, maxLength: 20, notBlank: true }) name?: string;
  @Property({ ...text, maxLength: 20, pattern: /^\p{Lu}{3}$/u }) code?: string;
  @Property({ ...integer, ...optional }) count?: number;
  @Property({ type: 'number', ...optional, example: 1.5 }) weight?: number;
  @Property({ type: 'boolean', ...optional }) fragile?: boolean;
  @Property({ ...text, format: 'date' }) releasedOn?: string;
  @Property({ ...text, format: 'date-time' }) soldAt?: string;
  @Property({ ...text, format: 'uuid' }) orderKey?: string;
  @Property({ ...text, ...price }) price?: string;
  @Property({ ...text, ...share }) share?: string;
  @Property({ type: 'string', ...statuses, default: 'available' }) status!: string;
  @Property({ type: 'array', items: digit, maxItems: 3, default: [7] }) digits!: number[];
  @Property({ ...text, maxLength: 20, writeOnly: true }) secret?: string;
  // Without an upper limit, as in documents that others have published.
  @Property({ ...text, minLength: 2, nullable: true, example: 'two' }) note?: string | null;
  @Property({ ...list, items: integer, minItems: 1, example: [3] }) numbers?: number[];
  @Property({ ...map, additionalProperties: integer }) counts?: Record<string, number>;
}

export class SamplePageParams {
  @Property({ type: 'integer', minimum: 1, maximum: 99, description: 'The number of the page.' })
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
  @Property({ type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'Limit.' })
  limit!: number;
  @Property({ type: 'number', ...optional, example: 1.5 }) minWeight?: number;
  @Property({ type: 'boolean', ...optional }) inStock?: boolean;
  @Property({ ...list, items: { type: 'integer', minimum: 1 }, maxItems: 3 }) tag?: number[];
}
