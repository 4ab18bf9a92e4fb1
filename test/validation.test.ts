import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { type OpenAPIObject, PartialType } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsUppercase, ValidateNested } from 'class-validator';
import * as fc from 'fast-check';
import type { Test } from 'supertest';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { Property } from '../src/platform/validation/property.js';
import { StrictValidationPipe, validateBody } from '../src/platform/validation/validation.pipe.js';
import { useApp } from './support/app.js';
import { CagesModule } from './support/cages.module.js';
import { insertRow } from './support/fixtures.js';

/** How many values were checked, and how many objects were converted to DTOs. */
const work = { checks: 0, conversions: 0 };
const ONE = Object.assign([1], {
  includes: (value: unknown) => {
    work.checks++;
    return value === 1;
  },
});

/** A body that counts what is done with it. */
class Box {
  @Property({ enum: ONE, optional: true }) one?: number;
  @Property({ type: () => Box, optional: true }) inner?: Box;
  @Property({ type: 'array', items: { type: () => Box }, optional: true }) list?: Box[];
  @Property({ type: 'array', items: { type: () => Box }, maxItems: 3, optional: true })
  some?: Box[];
  @Property({ type: 'object', additionalProperties: { type: 'integer' }, optional: true })
  map?: Record<string, number>;

  constructor() {
    work.conversions++;
  }
}

/** A query with parameters of every type. */
class BoxQuery {
  @Property({ enum: ['available', 'sold'], optional: true }) status?: string;
  @Property({ type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'Limit.' })
  limit!: number;
  @Property({ type: 'number', optional: true }) minWeight?: number;
  @Property({ type: 'boolean', optional: true }) inStock?: boolean;
  @Property({ type: 'array', items: { type: 'integer', minimum: 1 }, maxItems: 3, optional: true })
  tag?: number[];
  @Property({ type: 'string', optional: true }) text?: string;
}

class PageParams {
  @Property({ type: 'integer', minimum: 1, maximum: 99, description: 'The number of the page.' })
  page!: number;
}

@Controller('boxes')
class BoxesController {
  @Post()
  createBox(@Body() _box: Box): object {
    return {};
  }
  @Get()
  listBoxes(@Query() query: BoxQuery, @Query('name') _name?: string): BoxQuery {
    return query;
  }
  @Get('pages/:page')
  getPage(@Param() params: PageParams): PageParams {
    return params;
  }
}

@Feature({ tag: { name: 'boxes', description: 'Boxes.' }, controllers: [BoxesController] })
class BoxesModule {}

const app = useApp({ features: [CategoriesModule, CagesModule, BoxesModule] });

const get = (path: string): Test => app.http().get(`/v1/${path}`).auth(app.key, { type: 'bearer' });

const repeat = (count: number, toText: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => toText(index)).join(',');
const toJson = (name: string, inner: string): string => `{${JSON.stringify(name)}:${inner}}`;

describe('a rejected body', () => {
  const BODY_LIMIT = 102_400;
  const name = fc.oneof(
    fc.constantFrom('one', 'x', 'valueOf', '__proto__', 'inner', 'list', 'some', 'map'),
    fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes(';')),
    fc
      .tuple(
        fc.constantFrom('k', '"', '\u0001', '\ud800', '🪀'),
        fc.integer({ min: 50, max: 8000 }),
      )
      .map(([character, length]) => character.repeat(length)),
  );
  const value = fc.constantFrom('0', '{}', '[]', 'null', '{"valueOf":1}', '{"x":{"one":2}}');
  /** Values whose every part is invalid: wide, deep, with long names, and arrays of objects. */
  const { body } = fc.letrec<{ body: string }>((tie) => ({
    body: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.tuple(name, value).map(([key, inner]) => toJson(key, inner)),
      fc
        .tuple(fc.integer({ min: 1, max: 11_000 }), value)
        .map(([count, inner]) => `{${repeat(count, (index) => `"${index}":${inner}`)}}`),
      fc.tuple(name, tie('body')).map(([key, inner]) => toJson(key, inner)),
      fc
        .tuple(fc.constantFrom('list', 'some', 'x'), fc.nat(33_000), tie('body'))
        .map(([key, count, inner]) => {
          const length = Math.min(count, Math.floor(BODY_LIMIT / (inner.length + 1)));
          return toJson(key, `[${repeat(length, () => inner)}]`);
        }),
      fc
        .tuple(fc.constantFrom('inner', 'x'), fc.integer({ min: 1, max: 28 }), tie('body'))
        .map(([key, depth, inner]) => `{"${key}":`.repeat(depth) + inner + '}'.repeat(depth)),
    ),
  }));

  it('reports at most ten problems in 4 KB, and ends the validation with them', async () => {
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        fc.pre(Buffer.byteLength(text) <= BODY_LIMIT);
        Object.assign(work, { checks: 0, conversions: 0 });
        const response = await app
          .http()
          .post('/v1/boxes')
          .auth(app.key, { type: 'bearer' })
          .type('json')
          .send(text);
        fc.pre(response.status !== 201);
        expect(response).toBeError('VALIDATION_FAILED');
        expect(Buffer.byteLength(response.text)).toBeLessThanOrEqual(4096);
        const { message } = response.body as { message: string };
        expect(message.split('; ').length).toBeLessThanOrEqual(10);
        expect(work.conversions).toBe(0);
        expect(work.checks).toBeLessThanOrEqual(10);
      }),
      {
        examples: [
          [toJson('k'.repeat(45_000), `[${repeat(3500, () => '{"valueOf":1}')}]`)],
          [`{${repeat(11_000, (index) => `"${index}":1`)}}`],
          [toJson('list', `[${repeat(20, () => toJson('\u0001'.repeat(200), '1'))}]`)],
          [toJson('some', `[${repeat(33_000, () => '{}')}]`)],
          [toJson('list', `[${repeat(10_000, () => '{"one":2}')}]`)],
          [toJson('list', `[${repeat(10_000, () => '1')}]`)],
        ],
      },
    );
  });
});

/** With decorators of class-validator beside and without those of the platform. */
class Contact {
  @IsUppercase({ message: '$property must be in upper case' })
  @Property({ type: 'string', maxLength: 9, description: 'A name.', example: 'ANN' })
  name!: string;
  @IsInt() age!: number;
  @IsOptional() @ValidateNested() @Type(() => Contact) friend?: Contact;
}
class Contacts {
  @Property({ type: () => Contact }) contact!: Contact;
}

describe('a DTO with decorators of class-validator', () => {
  it('is validated by both', async () => {
    const contact = { name: 'ANN', age: 7 };
    await expect(validateBody(Contacts, { contact })).resolves.toEqual({ contact });
    for (const [changes, message] of [
      [{ name: 'Ann' }, 'contact.name must be in upper case.'],
      [{ age: undefined }, 'contact.age must be an integer number.'],
      [{ sex: 'f' }, 'unknown property contact.sex.'],
      [{ friend: { ...contact, sex: 'm' } }, 'unknown property contact.friend.sex.'],
    ] as const) {
      const result = validateBody(Contacts, { contact: { ...contact, ...changes } });
      await expect(result).rejects.toMatchObject({ message });
    }
  });

  it('may describe a query', async () => {
    class Filter {
      @IsInt() @Type(() => Number) age!: number;
    }
    const transform = (query: object): Promise<unknown> =>
      new StrictValidationPipe().transform(query, { type: 'query', metatype: Filter });
    await expect(transform({ age: '7', x: '1' })).resolves.toEqual({ age: 7 });
    await expect(transform({ age: 'x' })).rejects.toThrow('age must be an integer number.');
  });

  it('may be derived with PartialType', async () => {
    await expect(validateBody(PartialType(Contact), {})).resolves.toEqual({});
  });
});

describe('a query', () => {
  it.each([
    [
      'status=sold&limit=5&minWeight=-1.5e1&inStock=false&tag=1&tag=2',
      { status: 'sold', limit: 5, minWeight: -15, inStock: false, tag: [1, 2] },
    ],
    ['', { limit: 20 }],
    ['tag=7', { limit: 20, tag: [7] }],
    ['x=1&constructor=1&__proto__=1&toString=1&hasOwnProperty=1&x[y]=1', { limit: 20 }],
  ])('is converted from text, without unknown parameters: %s', async (query, expected) => {
    expect((await get(`boxes?${query}`)).body).toEqual(expected);
  });

  it.each([
    ['status=gone', 'status must be one of available, sold'],
    ['limit=0', 'limit must be an integer from 1 to 100'],
    ['limit=', 'limit must be an integer from 1 to 100'],
    ['limit=1e1', 'limit must be an integer from 1 to 100'],
    ['limit=1&limit=2', 'limit must be an integer from 1 to 100'],
    ['minWeight=NaN', 'minWeight must be a number'],
    ['minWeight=1e999', 'minWeight must be a number'],
    ['inStock=1', 'inStock must be true or false'],
    ['tag=1&tag=x', 'tag[1] must be an integer from 1 to 9007199254740991'],
    ['tag=1,2', 'tag[0] must be an integer from 1 to 9007199254740991'],
    ['tag=1&tag=2&tag=3&tag=4', 'tag must have at most 3 items'],
    ['name=x&name=%00', 'name[1] must not contain a NUL character'],
  ])('is rejected with 400 if it is invalid: %s', async (query, message) => {
    expect(await get(`boxes?${query}`)).toBeError('VALIDATION_FAILED', `${message}.`);
  });
});

describe('a path', () => {
  // Its id is 1.
  beforeAll(() => insertRow(app.dataSource, 'cages'));

  it.each(['0', '-1', '01', '1e0', '1.0', 'one', '9007199254740992'])(
    'is not found if its id cannot be one: %s',
    async (id) => {
      expect(await get(`cages/${id}`)).toBeError('NOT_FOUND', 'Resource not found.');
    },
  );

  it.each([
    ['12', 200, { page: 12 }],
    ['100', 400, { message: 'page must be an integer from 1 to 99.' }],
    ['x', 400, { message: 'page must be an integer from 1 to 99.' }],
  ])('with the parameters of a DTO is converted and validated: %s', async (page, status, body) => {
    const response = await get(`boxes/pages/${page}`);
    expect([response.status, response.body]).toMatchObject([status, body]);
  });
});

describe('the OpenAPI document', () => {
  it('contains the tags of all features once each, and the parameters of paths and queries with their types', async () => {
    const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(document.tags!.map(({ name }) => name)).toEqual(['categories', 'cages', 'boxes']);
    expect(document.paths['/boxes/pages/{page}']!.get!.parameters).toMatchObject([
      { name: 'page', in: 'path', required: true, description: 'The number of the page.' },
    ]);
    const common = { in: 'query', required: false };
    expect(document.paths['/boxes']!.get!.parameters).toMatchObject([
      { ...common, name: 'status', schema: { enum: ['available', 'sold'] } },
      {
        ...common,
        name: 'limit',
        description: 'Limit.',
        schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 },
      },
      { ...common, name: 'minWeight', schema: { type: 'number', example: 1.5 } },
      { ...common, name: 'inStock', schema: { type: 'boolean', example: true } },
      { ...common, name: 'tag', schema: { type: 'array', items: { minimum: 1 }, maxItems: 3 } },
      // Without an example, which Swagger UI would send.
      { ...common, name: 'text', schema: expect.not.objectContaining({ example: 'text' }) },
      { name: 'name', schema: { type: 'string' } },
    ]);
  });
});
