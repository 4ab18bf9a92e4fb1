import {
  ArrayProperty,
  BooleanProperty,
  DateProperty,
  DateTimeProperty,
  DecimalProperty,
  EnumProperty,
  IdProperty,
  IntegerProperty,
  MapProperty,
  NumberProperty,
  ObjectProperty,
  StringProperty,
  UriProperty,
  UuidProperty,
} from '../../src/platform/resource/property.decorators.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';

const optional = { optional: true, description: 'A value.' };
const integer = IntegerProperty({ format: 'int32', example: 1, description: 'An integer.' });
const digit = IntegerProperty({ minimum: 0, maximum: 9, example: 1, description: 'A digit.' });
const number = NumberProperty({ example: 1.5, description: 'A number.' });
const statuses = { values: ['available', 'sold'], description: 'The status.' };

export class Tag {
  @IntegerProperty({ ...optional, format: 'int32', example: 1 }) id?: number;
  @StringProperty({ maxLength: 10, description: 'The name.', example: 'new' }) name!: string;
  @EnumProperty({ values: ['red', 'blue'], default: 'red', description: 'The color.' })
  color!: string;
  @ObjectProperty(() => Tag, optional) parent?: Tag;
  @ArrayProperty({ ...optional, items: digit, maxItems: 2 }) codes?: number[];
}

/** A body with properties of every kind. */
export class Sample {
  @IdProperty({ readOnly: true, description: 'Assigned by the service.' }) id!: number;
  @ObjectProperty(() => Tag, optional) category?: Tag;
  @ArrayProperty({ ...optional, items: ObjectProperty(() => Tag), maxItems: 3, uniqueItems: true })
  tags?: Tag[];
  @ArrayProperty({
    ...optional,
    items: UriProperty({ description: 'The address of a photo.' }),
    minItems: 1,
    maxItems: 3,
    uniqueItems: true,
  })
  photoUrls?: string[];
  @ArrayProperty({
    ...optional,
    items: ArrayProperty({ items: number, minItems: 2, maxItems: 2, description: 'A point.' }),
    maxItems: 3,
  })
  outline?: number[][];
  @MapProperty({ ...optional, values: integer, maxProperties: 2 }) parts?: Record<string, number>;
  @MapProperty({ ...optional, values: EnumProperty(statuses) }) sizes?: Record<string, string>;
  @StringProperty({ ...optional, minLength: 2, maxLength: 20, notBlank: true, example: 'ann' })
  name?: string;
  @StringProperty({ ...optional, maxLength: 20, pattern: /^\p{Lu}{3}$/u, example: 'ABC' })
  code?: string;
  @IntegerProperty({ ...optional, format: 'int32', example: 1 }) count?: number;
  @NumberProperty({ ...optional, example: 1.5 }) weight?: number;
  @BooleanProperty(optional) fragile?: boolean;
  @DateProperty(optional) releasedOn?: string;
  @DateTimeProperty(optional) soldAt?: string;
  @UuidProperty(optional) orderKey?: string;
  @DecimalProperty({ ...optional, precision: 6, scale: 2, example: '9.99' })
  price?: string;
  @DecimalProperty({ ...optional, precision: 2, scale: 2, example: '0.5' }) share?: string;
  @EnumProperty({ ...statuses, default: 'available' }) status!: string;
  @ArrayProperty({ items: digit, maxItems: 3, default: [7], description: 'Digits.' })
  digits!: number[];
  @StringProperty({ ...optional, maxLength: 20, writeOnly: true, example: 'x' }) secret?: string;
  // Without an upper limit, as in documents that others have published.
  @StringProperty({ ...optional, minLength: 2, nullable: true, example: 'two' }) note?:
    string | null;
  @ArrayProperty({ ...optional, items: integer, minItems: 1, example: [3] }) numbers?: number[];
  @MapProperty({ ...optional, values: integer }) counts?: Record<string, number>;
}

export class SamplePageParams {
  @IntegerProperty({ minimum: 1, maximum: 99, description: 'The number of the page.', example: 4 })
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
  @EnumProperty({ ...statuses, optional: true }) status?: string;
  @IntegerProperty({ minimum: 1, maximum: 100, default: 20, example: 20, description: 'Limit.' })
  limit!: number;
  @NumberProperty({ ...optional, example: 1.5 }) minWeight?: number;
  @BooleanProperty(optional) inStock?: boolean;
  @ArrayProperty({ ...optional, items: IdProperty({ description: 'An id.' }), maxItems: 3 })
  tag?: number[];
}
