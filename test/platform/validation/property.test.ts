import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  Patch,
  Post,
  Put,
  SerializeOptions,
  UseInterceptors,
} from '@nestjs/common';
import { ApiCreatedResponse, ApiOkResponse } from '@nestjs/swagger';
import { IsUppercase } from 'class-validator';
import {
  Feature,
  IdParam,
  JsonBody,
  MergePatch,
  Operation,
  Property,
  type Schema,
} from '../../../src/platform/index.js';
import { applyMergePatch } from '../../../src/platform/resource/merge-patch.js';
import { toDocument } from '../../../src/platform/validation/property.js';
import { validateBody } from '../../../src/platform/validation/validation.pipe.js';
import { useApp } from '../support/app.js';

/** Validates a body whose property `value` has a schema. */
function validate(schema: Schema, value: unknown): Promise<object> {
  class Holder {
    @Property(schema) value?: unknown;
  }
  return validateBody(Holder, { value });
}

class Cat {
  @Property({ const: 'cat' }) kind!: string;
  @Property({ type: 'integer', minimum: 0, default: 9 }) lives!: number;
}
class Dog {
  @Property({ const: 'dog' }) kind!: string;
  @IsUppercase({ message: '$property must be in upper case' })
  @Property({ type: 'string' })
  name!: string;
}
const PET: Schema = {
  oneOf: [() => Cat, () => Dog],
  discriminator: { propertyName: 'kind', mapping: { cat: () => Cat, dog: () => Dog } },
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
const CAT = { kind: 'cat', lives: 9 };
const REX = { kind: 'dog', name: 'REX' };
const CAT_SCHEMA: Schema = { type: () => Cat };
const CATS: Schema = { type: 'array', items: CAT_SCHEMA };
const EXCLUSIVE: Schema = { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 2.5 };
const FRACTION: Schema = { type: 'number', minimum: 0, exclusiveMinimum: 0, exclusiveMaximum: 1 };
const BACKTRACKING: Schema = { type: 'string', pattern: '^(a+)+$', maxLength: 9 };
const INT32 = { format: 'int32', maximum: 2 ** 40 };
const toFormat = (format: string): Schema => ({ type: 'string', format });
const DATE_TIME = toFormat('date-time');
const NOON = '2026-11-01T12:00:00Z';
/** Times outside of the years 0000 to 9999 in UTC. */
const YEARS = ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00+00:01'];
const INVALID_URIS = ['javascript:alert(1)', 'http://', 'http://a b', 'http://a:b', 'http://ä'];
const LONG_TEXT: Schema = { type: 'string', minLength: 5 };
const POSITIVE: Schema = { type: 'integer', minimum: 1 };
const NULLABLE_ENUM: Schema = { type: 'string', enum: ['a'], nullable: true };
/** White space and control characters. */
const BLANK = '\t \u0007\u007f\u0085\u00a0\u2028\u3000\ufeff';
const NAME: Schema = { type: 'string', minLength: 2, maxLength: 20, notBlank: true };

/** Schemas, and valid values on an edge that the OpenAPI document does not describe. */
const ACCEPTED: [Schema, ...unknown[]][] = [
  [{ type: 'number', multipleOf: 0.01 }, 19.99, 0.07, 1e21, 0, -0.01],
  [{ type: 'number', multipleOf: 1e-7 }, 3e-7],
  [{ type: 'number', format: 'float' }, 3.4028234663852886e38],
  [toFormat('byte'), 'A'.repeat(2 ** 17)],
  [toFormat('date-time'), '0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z'],
  [{ type: 'string', pattern: String.raw`^[\w\-\_]+$` }, 'a-b'],
  [{ type: 'array', items: { type: 'string' }, uniqueItems: true }, [UUID, UUID.toUpperCase()]],
  [{ type: 'array', items: { type: 'array', items: PET } }, [[], [CAT, REX]]],
  [{ type: 'object', additionalProperties: { type: () => Cat } }, {}, { tom: CAT }],
  [
    { ...POINT, additionalProperties: true },
    { x: 1, y: 2, label: null, z: [3] },
  ],
  [{ oneOf: [{ type: 'number' }, { type: 'integer' }] }, 'a', 1.5, true],
  [{ type: 'array' }, [1, 1]],
  [{ oneOf: [{ type: 'string' }, {}] }, 'a', 1],
  [{ minLength: 2, minimum: 2 }, 'ab', 2, true, []],
];

const EQUAL = [{ a: 1, b: 2 }, JSON.parse('{"b":2,"a":1}')];
const deep = (depth: number): unknown => (depth === 0 ? '\0' : [deep(depth - 1)]);
/** Messages, and invalid values that cause them. */
const REJECTED: [string, Schema, ...unknown[]][] = [
  ['must be a number, at least -1', { type: 'number', minimum: -1 }, -1.1, Infinity, '1', null],
  ['must be a number, greater than 0 and less than 1', FRACTION, 0, 1],
  ['must be a number, at most 1', { type: 'number', maximum: 1 }, 2],
  ['must be a multiple of 0.01', { type: 'number', multipleOf: 0.01 }, 19.999, 1e-9],
  ['must be a number', { type: 'number', format: 'float' }, 3.5e38],
  ['must be an integer from 1 to 2', EXCLUSIVE, 0, 3, 1.5],
  ['must be an integer from 1 to 9007199254740991', POSITIVE, 2 ** 53, '1'],
  ['must be an integer from -2147483648 to 2147483647', { type: 'integer', ...INT32 }, 2 ** 31],
  ['must be true or false', { type: 'boolean' }, 'true', 0, null],
  ['is missing', { type: 'boolean' }, undefined],
  ['must be one of 1, a, null', { enum: [1, 'a', null] }, '1', [1], { length: 1 }],
  ['must be 2 to 20 characters long', NAME, 'x', 'x'.repeat(21), '🪀'],
  ['must not be blank', NAME, ...Array.from(BLANK, (each) => each.repeat(2)), BLANK],
  ['must be a string', NAME, 1, null, {}],
  // Matching the pattern would never end.
  ['must be at most 9 characters long', BACKTRACKING, `${'a'.repeat(100)}!`],
  ['must match the pattern ^[A-Z]{3}$', { type: 'string', pattern: /^[A-Z]{3}$/u }, 'AB', 'ABCD'],
  ['must be a date, such as 2026-11-01', toFormat('date'), '2026-02-29', 1],
  [`must be a date and time with an offset from UTC, such as ${NOON}`, DATE_TIME, '2026-11-01'],
  ['must be in the years 0000 to 9999 in UTC', DATE_TIME, ...YEARS],
  ['must be a UUID', toFormat('uuid'), '0190c8f5', `{${UUID}}`, 1],
  ['must be a decimal number in a string, such as 9.99', toFormat('decimal'), '1.', 1],
  ['must be a URI that starts with http:// or https://', toFormat('uri'), ...INVALID_URIS],
  // Matching the format would take long.
  ['must be at most 2048 characters long', toFormat('uri'), `http://${'x'.repeat(20_000_000)}`],
  [
    'must be an email address, such as ann@example.com',
    toFormat('email'),
    'a@b',
    'a@b.co\n',
    `${'a'.repeat(65)}@b.co`,
    1,
  ],
  ['must be at most 254 characters long', toFormat('email'), `a@${'b.'.repeat(200)}co`],
  ['must be encoded in base64, with padding', toFormat('byte'), 'cA', 'cA==\n'],
  ['must have 1 to 2 items', { type: 'array', minItems: 1, maxItems: 2 }, [], [1, 2, 3]],
  ['must be an array', { type: 'array' }, {}, { 0: CAT }, 'x', null],
  ['must not contain equal items', { type: 'array', uniqueItems: true }, EQUAL],
  ['must have 1 to 2 properties', { type: 'object', minProperties: 1, maxProperties: 2 }, {}],
  ['must be an object', { type: () => Cat }, 1, 'x', [], null],
  ['must be an object', PET, null, 'cat', [CAT]],
];
/** Messages with the path of a problem, and values that cause them. */
const PLACES: [string, Schema, unknown][] = [
  ['unknown property value', { type: 'integer', readOnly: true }, null],
  ['unknown property value[0][0].x', { type: 'array', items: CATS }, [[{ kind: 'cat', x: 1 }]]],
  [
    'value[1] must be true or false; value[3] must be true or false',
    { type: 'array', items: { type: 'boolean' } },
    [true, 'a', false, 'b'],
  ],
  ['value.a.kind is missing', { type: 'object', additionalProperties: CAT_SCHEMA }, { a: {} }],
  // Every object inherits these names.
  ['unknown property value.toString', CAT_SCHEMA, { ...CAT, toString: null }],
  ['unknown property value.a.constructor', { type: 'object' }, { a: { constructor: 1 } }],
  ['unknown property value.__proto__', { type: 'object' }, JSON.parse('{"__proto__":{}}')],
  ['unknown property value.prototype', { type: 'object' }, { prototype: 1 }],
  ['value.a[0] must not contain a NUL character', { type: 'object' }, { a: ['\0'] }],
  ['value.a: a key must not contain a lone surrogate', {}, { a: { '\ud800': 1 } }],
  [`value${'[0]'.repeat(20)} must not contain a NUL character`, {}, deep(20)],
  ['unknown property value.z', POINT, { x: 1, z: 1 }],
  ['value.z must be a string', { ...POINT, additionalProperties: LONG_TEXT }, { x: 1, z: 1 }],
  ['value.kind must be one of cat, dog', PET, { kind: 'toString' }],
  ['value.kind must be one of cat, dog', PET, { kind: ['cat'] }],
  [
    'value.a[1].name must be in upper case',
    { type: 'object', additionalProperties: { type: 'array', items: PET } },
    { a: [CAT, { kind: 'dog', name: 'rex' }] },
  ],
];

describe('@Property', () => {
  it.each(ACCEPTED)('accepts values on the edges of a schema: %j', async (schema, ...values) => {
    for (const value of values)
      expect(JSON.parse(JSON.stringify(await validate(schema, value)))).toEqual({ value });
  });

  it.each(REJECTED)('rejects a value that %s', async (problem, schema, ...values) => {
    const message = `value ${problem}.`;
    for (const value of values)
      await expect(validate(schema, value)).rejects.toMatchObject({ message });
  });

  it.each(PLACES)('names the path of each problem: %s', async (problems, schema, value) => {
    const message = `${problems}.`;
    await expect(validate(schema, value)).rejects.toMatchObject({ message });
  });

  it.each<[string, Schema]>([
    ['a pattern with flags', { type: 'string', pattern: /x/i }],
    ['two patterns', { type: 'string', pattern: /x/, notBlank: true }],
  ])('rejects at startup what the OpenAPI document cannot express: %s', (_name, schema) => {
    expect(() => Property(schema)).toThrow(TypeError);
  });

  it.each<[Schema, object]>([
    [toFormat('date'), { maxLength: 10, example: '2026-11-01' }],
    [toFormat('date-time'), { maxLength: 64, example: '2026-11-01T12:00:00.000Z' }],
    [{ ...toFormat('uuid'), pattern: '^[0-9A-F-]+$' }, { maxLength: 36 }],
    [NAME, { pattern: expect.stringMatching(/^\^.*\$$/), example: 'text' }],
    [LONG_TEXT, { pattern: String.raw`^[^\x00]*$`, example: 'text.' }],
    [POSITIVE, { format: 'int64', maximum: Number.MAX_SAFE_INTEGER }],
    [{ type: 'number', maximum: 1 }, { example: undefined }],
    [{ enum: ['a', 'b'], default: 'b' }, { example: 'a' }],
    [NULLABLE_ENUM, { enum: ['a', null], example: 'a' }],
    [{ type: 'array', items: { type: 'number' } }, { items: { type: 'number', example: 1.5 } }],
  ])('completes a schema in the OpenAPI document: %j', (schema, expected) => {
    const { notBlank: _notBlank, ...keywords } = schema;
    expect(toDocument(schema)).toEqual({ ...keywords, ...expected });
  });
});

const HEIGHT = { exclusiveMaximum: 5, maximum: 2, title: 'Height' };

/** A DTO in every position that a schema has for one. */
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

describe('POST, PUT and PATCH with nested DTOs', () => {
  const app = useApp({ features: [ZoosModule] });
  const send = (method: 'post' | 'patch' | 'put', body: unknown) => {
    const request = app.http()[method]('/v1/zoos').auth(app.key, { type: 'bearer' });
    return request.type('json').send(JSON.stringify(body));
  };

  it('converts DTOs and sets defaults at every depth, and omits write-only properties from responses', async () => {
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

  it('accepts an array of DTOs as a body', async () => {
    expect((await send('put', [CAT, { kind: 'cat' }])).body).toEqual([CAT, CAT]);
    expect(await send('put', {})).toBeError('VALIDATION_FAILED', 'the body must be an array.');
  });

  it('accepts a missing body if it is optional, and documents the path parameter as it is declared', async () => {
    const feed = () => app.http().patch('/v1/zoos/7').auth(app.key, { type: 'bearer' });
    expect((await feed()).body).toEqual({ id: 7, isPatch: false });
    const type = 'application/merge-patch+json';
    expect((await feed().type(type).send('{}')).body).toEqual({ id: 7, isPatch: true });
    expect(await feed().type(type).send('{"a": 1}')).toBeError('VALIDATION_FAILED');
    const unsupported = await feed().type('text/plain').send('a');
    expect(unsupported).toBeError('UNSUPPORTED_MEDIA_TYPE');
    expect(unsupported.headers['accept-patch']).toBe(`${type}, application/json`);
    const { paths } = await app.getDocument();
    const { parameters, requestBody } = paths['/zoos/{zooId}']!.patch!;
    expect(parameters).toMatchObject([{ name: 'zooId', schema: { type: 'string', example: '7' } }]);
    const schema = { $ref: '#/components/schemas/ZooPatch' };
    expect(requestBody).toEqual({
      required: false,
      content: { [type]: { schema }, 'application/json': { schema } },
    });
  });

  it.each<[object, string]>([
    [{ name: null }, 'name must be a string'],
    [{ place: { x: null } }, 'place.x must be a number'],
    [{ parts: [{ rows: [[{}]] }] }, 'parts[0].rows[0][0].kind must be one of cat, dog'],
  ])('rejects the merge patch %j', async (patch, message) => {
    expect(await send('patch', patch)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('accepts merge patches of objects, maps and unions: null removes a property, and no default is set', async () => {
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

  it('documents a copy of each class that both requests and responses use', async () => {
    const { components } = await app.getDocument();
    const { Zoo: zoo, Cat: cat, Dog: dog, ...others } = components!.schemas!;
    // Responses may have new properties.
    expect(JSON.stringify([zoo, cat, dog])).not.toContain('"additionalProperties":false');
    expect(others).toMatchObject({ ZooRequest: {}, CatRequest: {}, DogRequest: {}, ZooPatch: {} });
    // A class that only requests use keeps its name.
    expect(others).not.toHaveProperty('ZooPatchRequest');
    expect(zoo).toMatchObject({
      properties: {
        cat: { allOf: [{ $ref: '#/components/schemas/Cat' }], description: 'A cat.' },
        height: { title: 'Height' },
      },
    });
  });
});
