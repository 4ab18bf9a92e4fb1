import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  Get,
  Patch,
  Post,
  Put,
  SerializeOptions,
  UseInterceptors,
} from '@nestjs/common';
import { ApiCreatedResponse, ApiOkResponse, type OpenAPIObject, OmitType } from '@nestjs/swagger';
import { IsUppercase } from 'class-validator';
import { CachedJsonResponse } from '../src/platform/http/responses/cached-json-response.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { IdParam } from '../src/platform/resource/operation/id-param.decorator.js';
import { JsonBody } from '../src/platform/resource/operation/json-body.decorator.js';
import { applyMergePatch, MergePatch } from '../src/platform/resource/merge-patch.js';
import { Operation } from '../src/platform/resource/operation/operation.decorator.js';
import { Property, toDocument } from '../src/platform/validation/property.js';
import type { Schema } from '../src/platform/validation/schema.js';
import { validateBody } from '../src/platform/validation/validation.pipe.js';
import { useApp } from './support/app.js';

/** Returns the message that rejects a value, or undefined. */
async function findProblem(schema: Schema, value: unknown): Promise<string | undefined> {
  class Holder {
    @Property(schema) value?: unknown;
  }
  try {
    await validateBody(Holder, { value });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

class Cat {
  @Property({ const: 'cat' }) kind!: string;
  @Property({ type: 'integer', minimum: 0, default: 9 }) lives!: number;
}
class Dog {
  @Property({ const: 'dog' }) kind!: string;
  // A decorator of class-validator, which runs at every depth.
  @IsUppercase({ message: '$property must be in upper case' })
  @Property({ type: 'string' })
  name!: string;
}
const PET: Schema = {
  oneOf: [() => Cat, () => Dog],
  discriminator: { propertyName: 'kind', mapping: { cat: () => Cat, dog: () => Dog } },
};
/** Alternatives of different types. */
const ANY_OF_TYPES: Schema = {
  oneOf: [
    { type: 'string', maxLength: 3, nullable: true },
    { type: 'integer', minimum: 0, maximum: 9 },
    { type: 'array', items: { type: () => Cat } },
    () => Cat,
  ],
};
const POINT: Schema = {
  type: 'object',
  properties: {
    x: { type: 'number' },
    y: { type: 'number', default: 0 },
    label: { type: 'string', optional: true, nullable: true },
  },
};
const UUID = '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70';
const ID: Schema = { type: 'string', format: 'uuid' };
class Owner {
  @Property(ID) id!: string;
}
const OWNED: Schema = {
  type: 'object',
  properties: {
    ids: { type: 'array', items: { type: 'array', items: ID } },
    owner: { type: () => Owner },
    byName: { type: 'object', additionalProperties: ID },
  },
};
const CAT = { kind: 'cat', lives: 9 };
const OLD_CAT = { kind: 'cat', lives: 1 };
const NAME: Schema = { type: 'string', minLength: 2, maxLength: 20, notBlank: true };

describe('@Property with a schema', () => {
  it.each<[Schema, unknown[]]>([
    [{ type: 'number', multipleOf: 0.01 }, [19.99, 0.07, 1e21, 0, -0.01]],
    [{ type: 'number', multipleOf: 1e-7 }, [3e-7]],
    [{ type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 2.5, multipleOf: 2 }, [2]],
    [{ type: 'integer', maximum: 2 ** 63 }, [Number.MAX_SAFE_INTEGER]],
    [{ type: 'integer', enum: [1, 2] }, [1, 2]],
    [{ type: 'number', format: 'float' }, [3.4028234663852886e38, 0.1]],
    [{ enum: ['a'], nullable: true }, ['a', null]],
    [
      { type: 'string', format: 'email' },
      ['a@b.co', "o'neil+x@a-b.example.org", `${'x'.repeat(64)}@b.co`],
    ],
    [{ type: 'string', format: 'byte' }, ['', 'cGV0', 'cA==', '+/8=', 'A'.repeat(2 ** 17)]],
    [{ type: 'string', format: 'password', minLength: 2 }, ['ab']],
    [{ type: 'string', format: 'hostname' }, ['anything']],
    [{ type: 'string', format: 'date' }, ['2024-02-29', '0000-02-29', '9999-12-31']],
    [
      { type: 'string', format: 'date-time' },
      [
        '2026-11-01t12:00:00.5z',
        '2026-11-01T12:00:00-23:59',
        '0000-01-01T00:00:00Z',
        '9999-12-31T23:59:59.999Z',
      ],
    ],
    [
      { type: 'string', format: 'uuid' },
      ['0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70', '0190C8F5-7C6F-7D3A-9C5E-2F1A8B4D6E70'],
    ],
    [{ type: 'string', format: 'decimal' }, ['0', '-0.99', '9999.99', '10']],
    [
      { type: 'string', format: 'uri' },
      ['http://example.com', 'https://u@example.com:8080/a%20b?c=d#e'],
    ],
    [NAME, ['ab', '🪀🪀', 'x'.repeat(20)]],
    [{ type: 'string', minLength: 2, nullable: true }, ['x'.repeat(20_000), null]],
    [{ type: 'string', pattern: String.raw`^[\w\-\_]+$` }, ['a-b']],
    [{ type: 'string', pattern: String.raw`^\p{Lu}$` }, ['Ä']],
    [{ type: 'array', items: { type: () => Cat }, uniqueItems: true }, [[CAT, OLD_CAT]]],
    [{ type: 'array', items: { type: 'string' }, uniqueItems: true }, [[UUID, UUID.toUpperCase()]]],
    [{ type: 'array', items: { type: 'integer', nullable: true } }, [[1, null]]],
    [{ type: 'array', items: { type: 'array', items: { type: () => Cat } } }, [[[], [CAT]]]],
    [{ type: 'object', additionalProperties: { type: () => Cat } }, [{}, { tom: CAT }]],
    [POINT, [{ x: 1, y: 2, label: null }]],
    [{ ...POINT, additionalProperties: true }, [{ x: 1, y: 2, z: [3] }]],
    [PET, [CAT, { kind: 'dog', name: 'REX' }]],
    [{ type: 'array', items: PET }, [[CAT, { kind: 'dog', name: 'REX' }]]],
    [ANY_OF_TYPES, ['a', 1, [CAT], CAT, null]],
    [{ oneOf: [{ type: 'number' }, { type: 'integer' }] }, ['a', 1.5, true]],
    [{ oneOf: [{ type: () => Cat }, { type: 'object' }] }, ['a', {}]],
    [{ oneOf: [{ type: 'string' }, {}] }, ['a', 1]],
    [{}, [1, 'a', null, true, [], {}, { a: [{ b: null }] }]],
    [{ minLength: 2, minimum: 2 }, ['ab', 2, true, []]],
  ])('accepts and returns %j', async (schema, values) => {
    class Holder {
      @Property(schema) value?: unknown;
    }
    for (const value of values)
      expect(JSON.parse(JSON.stringify(await validateBody(Holder, { value })))).toEqual({ value });
  });

  const NO_EMAILS: unknown[] = ['', 'a b@c.de', 'a@b.co\n', `${'x'.repeat(65)}@b.co`, 1].concat(
    'a @b.co a@b a@b..co .a@b.co a.@b.co a@-b.co ä@b.co'.split(' '),
  );
  const deep = (depth: number): unknown => (depth === 0 ? '\0' : [deep(depth - 1)]);
  it.each<[Schema, string, unknown[]]>([
    [
      { type: 'number', minimum: -1, exclusiveMaximum: 1 },
      'value must be a number, at least -1 and less than 1',
      [-1.1, 1, Infinity],
    ],
    [
      { type: 'number', minimum: 0, exclusiveMinimum: 0, maximum: 1 },
      'value must be a number, greater than 0 and at most 1',
      [0, 2],
    ],
    [{ type: 'number', multipleOf: 0.01 }, 'value must be a multiple of 0.01', [19.999, 1e-9]],
    [{ type: 'number' }, 'value must be a number', ['1.5', null, true]],
    [
      { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 2.5 },
      'value must be an integer from 1 to 2',
      [0, 3, 1.5],
    ],
    [
      { type: 'integer', minimum: 1 },
      'value must be an integer from 1 to 9007199254740991',
      [2 ** 53, '1', null],
    ],
    [
      { type: 'integer', format: 'int32', maximum: 2 ** 40 },
      'value must be an integer from -2147483648 to 2147483647',
      [2 ** 31],
    ],
    [{ type: 'integer', readOnly: true }, 'unknown property value', [1, null]],
    [
      { type: 'number', format: 'float', minimum: -1e300 },
      'value must be a number, at least -1e+300',
      [3.5e38, -3.5e38],
    ],
    [{ type: 'boolean' }, 'value must be true or false', ['true', 0, null]],
    [{ type: 'boolean' }, 'value is missing', [undefined]],
    [{ const: false }, 'value must be one of false', [0, 'false', null]],
    [{ enum: [1, 'a', null] }, 'value must be one of 1, a, null', ['1', [1], { length: 1 }]],
    [NAME, 'value must be 2 to 20 characters long', ['', 'x', 'x'.repeat(21), '🪀']],
    [NAME, 'value must not be blank', ['   ']],
    [
      { type: 'string', pattern: '^(a+)+$', maxLength: 9 },
      'value must be at most 9 characters long',
      // The pattern would take longer than the age of the universe.
      [`${'a'.repeat(100)}!`],
    ],
    [NAME, 'value must be a string', [1, null, {}]],
    [
      { type: 'string', pattern: /^\p{Lu}{3}$/u },
      String.raw`value must match the pattern ^\p{Lu}{3}$`,
      ['AB', 'ABCD', 'abc'],
    ],
    [
      { type: 'string', format: 'date' },
      'value must be a date, such as 2026-11-01',
      ['2026-02-29', '2026-13-01', '2026-1-1', '+02026-01-01', '2026-11-01T00:00:00Z', 1],
    ],
    [
      { type: 'string', format: 'date-time' },
      'value must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z',
      ['2026-11-01', '2026-02-30T12:00:00Z', '2026-11-01T24:00:00Z', 1, null],
    ],
    [
      { type: 'string', format: 'date-time' },
      'value must be in the years 0000 to 9999 in UTC',
      ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00+00:01'],
    ],
    [
      { type: 'string', format: 'uuid' },
      'value must be a UUID',
      ['0190c8f5', '{0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70}', 1],
    ],
    [
      { type: 'string', format: 'decimal' },
      'value must be a decimal number in a string, such as 9.99',
      ['+1', '1.', '.5', '01', '1e2', ' 1', '', 1],
    ],
    [
      { type: 'string', format: 'uri' },
      'value must be a URI that starts with http:// or https://',
      'javascript:alert(1)|urn:a||ftp://a|http://|http://a b|//a|http://a\\b|http://ä|http://a/%'.split(
        '|',
      ),
    ],
    [
      { type: 'string', format: 'uri' },
      'value must be at most 2048 characters long',
      // The characters of a long text must not be checked.
      [`http://a/${'x'.repeat(2048)}`, `http://${'x'.repeat(20_000_000)}`],
    ],
    [
      { type: 'string', format: 'email' },
      'value must be an email address, such as ann@example.com',
      NO_EMAILS,
    ],
    [
      { type: 'string', format: 'email' },
      'value must be at most 254 characters long',
      [`a@${'b.'.repeat(200)}co`],
    ],
    [
      { type: 'string', format: 'byte' },
      'value must be encoded in base64, with padding',
      ['a', 'cA=', 'cA', 'c-A=', 'cA==\n', ' '],
    ],
    [ANY_OF_TYPES, 'value must be of the type string or number or array or object', [true]],
    [ANY_OF_TYPES, 'value must be at most 3 characters long', ['long']],
    [ANY_OF_TYPES, 'value must be an integer from 0 to 9', [1.5, 10]],
    [ANY_OF_TYPES, 'value[1].kind is missing', [[CAT, {}]]],
    [ANY_OF_TYPES, 'unknown property value.x', [{ ...CAT, x: 1 }]],
    [
      { anyOf: [{ type: 'string' }, { type: 'boolean' }] },
      'value must be of the type string or boolean',
      [null, 1, [], {}],
    ],
    [
      { type: 'array', items: ANY_OF_TYPES, uniqueItems: true },
      'value must not contain equal items',
      [[CAT, { kind: 'cat' }]],
    ],
    [
      { type: 'array', items: { oneOf: [ID, { type: 'integer' }] }, uniqueItems: true },
      'value must not contain equal items',
      [[UUID, UUID.toUpperCase()]],
    ],
    [{ type: 'array' }, 'value must be an array', [{}, { 0: CAT }, 'x', null]],
    [{ type: 'array', minItems: 1 }, 'value must have at least 1 items', [[]]],
    [{ type: 'array', minItems: 1, maxItems: 2 }, 'value must have 1 to 2 items', [[], [1, 2, 3]]],
    [
      { type: 'array', items: { type: () => Cat }, uniqueItems: true },
      'value must not contain equal items',
      [
        [CAT, CAT],
        [CAT, { kind: 'cat' }],
      ],
    ],
    [
      { type: 'array', uniqueItems: true },
      'value must not contain equal items',
      [
        [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      ],
    ],
    [
      { type: 'array', items: { type: 'boolean' }, uniqueItems: true },
      'value[0] must be true or false; value[1] must be true or false',
      [[1, 1]],
    ],
    [
      { type: 'array', items: OWNED, uniqueItems: true },
      'value must not contain equal items',
      // One UUID is stored in lower case.
      [[UUID, UUID.toUpperCase()].map((id) => ({ ids: [[id]], owner: { id }, byName: { a: id } }))],
    ],
    [{ type: () => Cat }, 'value must be an object', [1, 'x', [], [CAT], null]],
    [{ type: () => Cat }, 'value.kind is missing', [{}]],
    // What every object inherits is easily mistaken for a known property.
    [{ type: () => Cat }, 'unknown property value.toString', [{ ...CAT, toString: null }]],
    [{ type: () => Cat }, 'unknown property value.', [Object.assign({ '': 1 }, CAT)]],
    [
      { type: 'array', items: { type: 'array', items: { type: () => Cat } } },
      'unknown property value[0][0].x',
      [[[{ kind: 'cat', x: 1 }]]],
    ],
    [
      { type: 'array', items: { type: 'integer', maximum: 2, minimum: 1 } },
      'value[1] must be an integer from 1 to 2; value[3] must be an integer from 1 to 2',
      [[1, 'a', 2, 'b']],
    ],
    [
      { type: 'object', additionalProperties: { type: () => Cat } },
      'value.a.lives must be an integer from 0 to 9007199254740991',
      [{ a: { kind: 'cat', lives: -1 } }],
    ],
    [
      { type: 'object', minProperties: 1, maxProperties: 2 },
      'value must have 1 to 2 properties',
      [{}, { a: 1, b: 2, c: 3 }],
    ],
    [{ type: 'object' }, 'value must be an object', [[], 1, null]],
    [{ type: 'object' }, 'unknown property value.a.constructor', [{ a: { constructor: 1 } }]],
    [
      { type: 'object' },
      'unknown property value.__proto__',
      [JSON.parse('{"__proto__":{}}') as object],
    ],
    [{ type: 'object' }, 'unknown property value.prototype', [{ prototype: 1 }]],
    [{ type: 'object' }, 'value.a[0] must not contain a NUL character', [{ a: ['\0'] }]],
    [
      { type: 'object' },
      'value.a: a key must not contain a lone surrogate',
      [{ a: { '\ud800': 1 } }],
    ],
    [{}, `value${'[0]'.repeat(20)} must not contain a NUL character`, [deep(20)]],
    [{}, 'value must be a number', [Infinity]],
    [POINT, 'unknown property value.z', [{ x: 1, z: 1 }]],
    [POINT, 'value.x is missing', [{}]],
    [
      { ...POINT, additionalProperties: { type: 'string' } },
      'value.z must be a string',
      [{ x: 1, z: 1 }],
    ],
    [
      PET,
      'value.kind must be one of cat, dog',
      [{}, { kind: 'bird' }, { kind: 'toString' }, { kind: ['cat'] }],
    ],
    [PET, 'value must be an object', [null, 'cat', [CAT]]],
    [PET, 'value.name must be in upper case', [{ kind: 'dog', name: 'rex' }]],
    [
      { type: 'object', additionalProperties: { type: 'array', items: PET } },
      'value.a[1].name must be in upper case',
      [{ a: [CAT, { kind: 'dog', name: 'rex' }] }],
    ],
    [{ minLength: 2, minimum: 2 }, 'value must be at least 2 characters long', ['a']],
    [{ minLength: 2, minimum: 2 }, 'value must be a number, at least 2', [1]],
  ])('rejects values of %j: %s', async (schema, message, values) => {
    for (const value of values) expect(await findProblem(schema, value)).toBe(`${message}.`);
  });

  it.each<[string, Schema]>([
    ['a pattern with flags', { type: 'string', pattern: /x/i }],
    ['two patterns', { type: 'string', pattern: /x/, notBlank: true }],
  ])('refuses what the OpenAPI document cannot express: %s', (_name, schema) => {
    expect(() => Property(schema)).toThrow(TypeError);
  });

  it.each<[Schema, object]>([
    [
      { type: 'string', format: 'date', optional: true },
      { maxLength: 10, example: '2026-11-01' },
    ],
    [
      { type: 'string', format: 'date-time' },
      { maxLength: 64, example: '2026-11-01T12:00:00.000Z' },
    ],
    [
      { type: 'string', format: 'uri', description: 'A photo.' },
      {
        maxLength: 2048,
        pattern: expect.stringMatching(/^\^https\?:/),
        example: 'https://example.com/photos/1.jpg',
      },
    ],
    [
      { type: 'string', format: 'uuid', pattern: '^[0-9A-F-]+$' },
      { maxLength: 36, pattern: '^[0-9A-F-]+$' },
    ],
    [NAME, { pattern: expect.stringMatching(/^\^.*\$$/), example: 'text' }],
    [
      { type: 'string', minLength: 5 },
      { pattern: String.raw`^[^\x00]*$`, example: 'text.' },
    ],
    [{ type: 'string', pattern: /^\p{Lu}$/u }, { pattern: String.raw`^\p{Lu}$` }],
    [
      { type: 'integer', minimum: 1 },
      { format: 'int64', maximum: Number.MAX_SAFE_INTEGER },
    ],
    [{ type: 'number' }, { example: 1.5 }],
    [{ type: 'number', maximum: 1 }, { example: undefined }],
    [{ type: 'boolean' }, { example: true }],
    [
      { enum: ['a', 'b'], default: 'b' },
      { enum: ['a', 'b'], default: 'b', example: 'a' },
    ],
    [
      { type: 'string', enum: ['a'], nullable: true },
      { enum: ['a', null], example: 'a' },
    ],
    [
      { type: 'array', items: { type: 'number' }, uniqueItems: true, minItems: 1, example: [3] },
      { items: { type: 'number', example: 1.5 }, uniqueItems: true, minItems: 1, example: [3] },
    ],
    [{ type: 'boolean', readOnly: true, writeOnly: true }, { example: true }],
    [
      { type: () => Cat, description: 'A cat.' },
      { type: undefined, allOf: [{ $ref: expect.any(Function) }] },
    ],
  ])('is described in the OpenAPI document: %j', (schema, expected) => {
    const { optional: _optional, notBlank: _notBlank, ...keywords } = schema;
    expect(toDocument(schema)).toEqual({ ...keywords, ...expected });
  });
});

class Holder {
  @Property(ANY_OF_TYPES) value!: unknown;
}

describe('alternatives of different types', () => {
  it('convert the objects among them', async () => {
    const { value } = await validateBody(Holder, { value: { kind: 'cat' } });
    expect(value).toBeInstanceOf(Cat);
    const { value: cats } = await validateBody(Holder, { value: [{ kind: 'cat' }] });
    expect(cats).toEqual([Object.assign(new Cat(), CAT)]);
  });

  it('may lack properties in a merge patch', async () => {
    const dto = MergePatch(Holder);
    for (const value of [{ lives: 1 }, 'a', [CAT]])
      expect(await validateBody(dto, { value })).toEqual({ value });
    await expect(validateBody(dto, { value: { x: 1 } })).rejects.toThrow('value.x');
    await expect(validateBody(dto, { value: true })).rejects.toThrow('must be of the type');
  });
});

const toReference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

const HEIGHT = { exclusiveMaximum: 5, maximum: 2, title: 'Height', deprecated: true };

/** A pet in every position that a schema has for a DTO. */
class Zoo {
  @Property({ type: 'integer', readOnly: true, optional: true }) id?: number;
  @Property({ type: 'string', writeOnly: true, optional: true }) secret?: string;
  @Property({ type: 'string', minLength: 2, optional: true }) name?: string;
  @Property({ type: () => Cat, optional: true, description: 'A cat.' }) cat?: Cat;
  @Property({ type: 'object', additionalProperties: { type: () => Cat }, optional: true })
  byName?: Record<string, Cat>;
  @Property({ type: 'array', items: { type: 'array', items: PET }, optional: true })
  rows?: (Cat | Dog)[][];
  @Property({ ...PET, optional: true, description: 'The boss.' }) boss?: Cat | Dog;
  @Property({ ...POINT, optional: true, description: 'Where it is.' }) place?: {
    x: number;
    y?: number;
    label?: string | null;
  };
  @Property({ type: 'array', items: { type: () => Zoo, nullable: true }, optional: true })
  parts?: (Zoo | null)[];
  @Property({ optional: true }) anything?: unknown;
  @Property({ type: 'number', ...HEIGHT, minimum: -9, exclusiveMinimum: 0, optional: true })
  height?: number;
  @Property({ type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 9, optional: true })
  floors?: number;
}
/** As responses have it. */
class PublicZoo extends OmitType(Zoo, ['secret']) {}
class ZooPatch extends MergePatch(Zoo, ['boss', 'place', 'cat', 'byName', 'parts']) {}

@Controller('zoos')
class ZoosController {
  @Post()
  @UseInterceptors(ClassSerializerInterceptor)
  @SerializeOptions({ type: Zoo })
  @ApiCreatedResponse({ type: Zoo })
  createZoo(@Body() zoo: Zoo): Zoo {
    return zoo;
  }
  @Get()
  @Operation({ operationId: 'listZoos', response: 'Zoos.', returns: [PublicZoo], list: 'whole' })
  listZoos(): Promise<CachedJsonResponse> {
    const rows = [[Object.assign(new Zoo(), { id: 1, secret: 'x' })]];
    return CachedJsonResponse.ofList(rows, ({ secret: _secret, ...zoo }): PublicZoo => zoo);
  }
  @Patch()
  @ApiOkResponse({ type: Zoo })
  updateZoo(@Body() patch: ZooPatch): object {
    return patch;
  }
  @Put()
  @ApiOkResponse({ type: [Cat] })
  replaceCats(
    @JsonBody({ type: 'array', items: { type: () => Cat }, maxItems: 2 }) cats: Cat[],
  ): Cat[] {
    return cats.filter((cat) => cat instanceof Cat);
  }
  @Patch(':zooId')
  @Operation({ operationId: 'feed', response: 'What the handler gets.' })
  feed(
    @IdParam('zooId', { schema: { type: 'string', description: 'An id.', example: '7' } })
    id: number,
    @JsonBody({ type: () => ZooPatch }, { required: false, mergePatch: true }) patch?: ZooPatch,
  ): object {
    return { id, isPatch: patch instanceof ZooPatch };
  }
}

@Feature({ tag: { name: 'zoos', description: 'Zoos.' }, controllers: [ZoosController] })
class ZoosModule {}

describe('an operation with schemas of every kind', () => {
  const app = useApp({ features: [ZoosModule] });
  const send = (method: 'post' | 'patch' | 'put', body: unknown) => {
    const request = app.http()[method]('/v1/zoos').auth(app.key, { type: 'bearer' });
    return request.type('json').send(JSON.stringify(body));
  };

  it('gets DTOs with their defaults, at every depth, and responds without what is write-only', async () => {
    const cat = { kind: 'cat' };
    const response = await send('post', {
      secret: 'x',
      byName: { tom: cat },
      rows: [[cat]],
      boss: cat,
      place: { x: 1 },
      parts: [null, { boss: cat }],
      anything: [{ a: null }],
    });
    expect(response.body).toEqual({
      byName: { tom: CAT },
      rows: [[CAT]],
      boss: CAT,
      place: { x: 1, y: 0 },
      parts: [null, { boss: CAT }],
      anything: [{ a: null }],
    });
  });

  it('has a list without what is write-only, if responses have a class of their own', async () => {
    const { text } = await app.http().get('/v1/zoos').auth(app.key, { type: 'bearer' });
    expect(text).toBe('[{"id":1}]');
    const { components } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(components!.schemas!.PublicZoo).not.toHaveProperty('properties.secret');
  });

  it.each<[unknown, string]>([
    [{}, 'the body must be an array'],
    [[CAT, CAT, CAT], 'the body must have at most 2 items'],
    [[CAT, { ...CAT, x: 1 }], 'unknown property [1].x'],
    [[{}], '[0].kind is missing'],
  ])('rejects a body that is not an array of its DTOs: %j', async (body, message) => {
    expect(await send('put', body)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('accepts an array of DTOs as a body', async () => {
    expect((await send('put', [CAT, { kind: 'cat' }])).body).toEqual([CAT, CAT]);
  });

  it('gets undefined instead of an optional body, and an id of another published schema', async () => {
    const feed = () => app.http().patch('/v1/zoos/7').auth(app.key, { type: 'bearer' });
    expect((await feed()).body).toEqual({ id: 7, isPatch: false });
    const type = 'application/merge-patch+json';
    expect((await feed().type(type).send('{}')).body).toEqual({ id: 7, isPatch: true });
    expect(await feed().type(type).send('{"a": 1}')).toBeError('VALIDATION_FAILED');
    const { paths } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const { parameters, requestBody } = paths['/zoos/{zooId}']!.patch!;
    expect(parameters).toMatchObject([{ name: 'zooId', schema: { type: 'string', example: '7' } }]);
    const schema = { $ref: '#/components/schemas/ZooPatch' };
    expect(requestBody).toEqual({
      required: false,
      content: { [type]: { schema }, 'application/json': { schema } },
    });
  });

  it.each<[object, string]>([
    [{ id: 1 }, 'unknown property id'],
    [{ name: null }, 'name must be a string'],
    [{ name: 'x' }, 'name must be at least 2 characters long'],
    [{ cat: { kind: null } }, 'cat.kind must be one of cat'],
    [{ cat: { x: 1 } }, 'unknown property cat.x'],
    [{ cat: [] }, 'cat must be an object'],
    [{ place: { x: null } }, 'place.x must be a number'],
    [{ parts: [{ rows: [[{}]] }] }, 'parts[0].rows[0][0].kind must be one of cat, dog'],
    [
      { byName: { tom: { lives: -1 } } },
      'byName.tom.lives must be an integer from 0 to 9007199254740991',
    ],
  ])('rejects the merge patch %j', async (patch, message) => {
    expect(await send('patch', patch)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('accepts a merge patch of objects, maps and unions, which null removes, without defaults', async () => {
    for (const body of [{}, { cat: null, byName: null, parts: null }, { parts: [{ boss: CAT }] }])
      expect((await send('patch', body)).body).toEqual(body);
    const patch = {
      secret: 'x',
      cat: {},
      byName: { tom: { lives: 1 }, tim: null },
      boss: { kind: 'dog', lives: null },
      place: { label: null },
    };
    expect((await send('patch', patch)).body).toEqual(patch);
    const zoo = applyMergePatch(
      { boss: CAT, place: { x: 1, label: 'a' } },
      { ...patch, byName: {}, cat: {} },
    );
    await expect(validateBody(Zoo, zoo)).rejects.toThrow('boss.name is missing.');
  });

  it('refers to its DTOs in the OpenAPI document', async () => {
    const { paths, components } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const toPet = (cat: string, dog: string) => ({
      oneOf: [toReference(cat), toReference(dog)],
      discriminator: {
        propertyName: 'kind',
        mapping: { cat: `#/components/schemas/${cat}`, dog: `#/components/schemas/${dog}` },
      },
    });
    const pet = toPet('Cat', 'Dog');
    const label = { type: 'string', nullable: true };
    expect(components!.schemas).toMatchObject({
      Zoo: {
        properties: {
          id: { readOnly: true },
          cat: { allOf: [toReference('Cat')], description: 'A cat.' },
          byName: { type: 'object', additionalProperties: toReference('Cat') },
          rows: { items: { type: 'array', items: pet } },
          boss: { ...pet, description: 'The boss.' },
          place: {
            type: 'object',
            properties: { x: { type: 'number' }, y: { default: 0 }, label },
            required: ['x'],
          },
          parts: { items: { anyOf: [toReference('Zoo'), { nullable: true, enum: [null] }] } },
          anything: {},
          // The booleans of OpenAPI 3.0.
          height: {
            minimum: 0,
            exclusiveMinimum: true,
            maximum: 2,
            title: 'Height',
            deprecated: true,
          },
          floors: { minimum: 1, maximum: 8, format: 'int32' },
        },
      },
      ZooRequest: {
        additionalProperties: false,
        properties: {
          cat: { allOf: [toReference('CatRequest')], description: 'A cat.' },
          byName: { type: 'object', additionalProperties: toReference('CatRequest') },
          rows: { items: { type: 'array', items: toPet('CatRequest', 'DogRequest') } },
          place: { additionalProperties: false },
          parts: { items: { anyOf: [toReference('ZooRequest'), { nullable: true }] } },
        },
      },
      Cat: { properties: { kind: { enum: ['cat'] } } },
      CatRequest: { additionalProperties: false, properties: { kind: { enum: ['cat'] } } },
      Dog: { required: ['kind', 'name'] },
      DogRequest: { additionalProperties: false, required: ['kind', 'name'] },
      ZooPatch: {
        properties: {
          byName: { additionalProperties: { anyOf: [toReference('CatMergePatch'), {}] } },
          cat: {
            anyOf: [toReference('CatMergePatch'), { type: 'object', nullable: true, enum: [null] }],
          },
          parts: { nullable: true },
          name: expect.not.objectContaining({ nullable: true }) as object,
          boss: { type: 'object', nullable: true },
        },
      },
    });
    expect(components!.schemas!.Zoo).not.toHaveProperty('required');
    expect(components!.schemas!.Zoo).not.toHaveProperty('properties.height.exclusiveMaximum');
    expect(components!.schemas!.Zoo).not.toHaveProperty('properties.floors.exclusiveMinimum');
    expect(components!.schemas!.Zoo).not.toHaveProperty('properties.anything.type');
    for (const name of ['ZooPatch', 'CatMergePatch'])
      expect(JSON.stringify(components!.schemas![name])).not.toMatch(/"(required|default|id)"/);
    const cats = { items: toReference('CatRequest'), maxItems: 2 };
    expect(paths['/zoos']!.put!.requestBody).toMatchObject({
      content: { 'application/json': { schema: cats } },
    });
    // Clients must expect other properties in responses.
    const received = ['Zoo', 'Cat', 'Dog'].map((name) => components!.schemas![name]);
    expect(JSON.stringify(received)).not.toContain('"additionalProperties":false');
    // A class that only requests have keeps its name.
    expect(components!.schemas).not.toHaveProperty('ZooPatchRequest');
  });
});
