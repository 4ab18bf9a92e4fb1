import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsUppercase, ValidateNested } from 'class-validator';
import type { Test } from 'supertest';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { Feature, Property } from '../../../src/platform/index.js';
import {
  StrictValidationPipe,
  validateBody,
} from '../../../src/platform/validation/validation.pipe.js';
import { useApp } from '../support/app.js';
import { CagesModule } from '../support/cages.module.js';
import { insertRow } from '../support/fixtures.js';

/** The number of values that were compared with an enum, and of objects that were converted to DTOs. */
const work = { checks: 0, conversions: 0 };
const ONE = Object.assign([1], {
  includes: (value: unknown) => {
    work.checks++;
    return value === 1;
  },
});

/** A body that counts the work of its validation. */
class Box {
  @Property({ enum: ONE, optional: true }) one?: number;
  @Property({ type: 'array', items: { enum: ONE }, optional: true }) ones?: number[];
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

describe('an invalid body', () => {
  it.each<[string, string]>([
    ['a long name', toJson('k'.repeat(45_000), `[${repeat(3500, () => '{"valueOf":1}')}]`)],
    ['many names', `{${repeat(11_000, (index) => `"${index}":1`)}}`],
    ['names to escape', toJson('list', `[${repeat(20, () => toJson('\u0001'.repeat(200), '1'))}]`)],
    ['too many items', toJson('some', `[${repeat(33_000, () => '{}')}]`)],
    ['invalid items', toJson('list', `[${repeat(10_000, () => '{"one":2}')}]`)],
    ['invalid numbers', toJson('ones', `[${repeat(10_000, () => '2')}]`)],
    ['items of another type', toJson('list', `[${repeat(10_000, () => '1')}]`)],
    ['depth', '{"inner":'.repeat(28) + toJson('one', '2') + '}'.repeat(28)],
    ['invalid values of a map', toJson('map', `{${repeat(9_000, (index) => `"${index}":{}`)}}`)],
  ])('returns at most ten problems in 4 KB, which end the validation: %s', async (_name, text) => {
    Object.assign(work, { checks: 0, conversions: 0 });
    const request = app.http().post('/v1/boxes').auth(app.key, { type: 'bearer' });
    const response = await request.type('json').send(text);
    expect(response).toBeError('VALIDATION_FAILED');
    expect(Buffer.byteLength(response.text)).toBeLessThanOrEqual(4096);
    const { message } = response.body as { message: string };
    expect(message.split('; ').length).toBeLessThanOrEqual(10);
    expect(work.conversions).toBe(0);
    expect(work.checks).toBeLessThanOrEqual(10);
  });
});

/** A DTO with decorators of class-validator, with and without `@Property`. */
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
  it('applies the rules of class-validator and of @Property', async () => {
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

  it('converts and validates a query', async () => {
    class Filter {
      @IsInt() @Type(() => Number) age!: number;
    }
    const transform = (query: object): Promise<unknown> =>
      new StrictValidationPipe().transform(query, { type: 'query', metatype: Filter });
    await expect(transform({ age: '7', x: '1' })).resolves.toEqual({ age: 7 });
    await expect(transform({ age: 'x' })).rejects.toThrow('age must be an integer number.');
  });
});

describe('query parameters', () => {
  it.each([
    [
      'status=sold&limit=5&minWeight=-1.5e1&inStock=false&tag=1&tag=2',
      { status: 'sold', limit: 5, minWeight: -15, inStock: false, tag: [1, 2] },
    ],
    ['', { limit: 20 }],
    ['tag=7', { limit: 20, tag: [7] }],
    ['x=1&constructor=1&__proto__=1&toString=1&hasOwnProperty=1&x[y]=1', { limit: 20 }],
  ])(
    'converts texts to their types, and ignores unknown parameters: %s',
    async (query, expected) => {
      expect((await get(`boxes?${query}`)).body).toEqual(expected);
    },
  );

  it.each([
    ['limit=1e1', 'limit must be an integer from 1 to 100'],
    ['limit=1&limit=2', 'limit must be an integer from 1 to 100'],
    ['minWeight=1e999', 'minWeight must be a number'],
    ['inStock=1', 'inStock must be true or false'],
    ['tag=1&tag=x', 'tag[1] must be an integer from 1 to 9007199254740991'],
    ['tag=1,2', 'tag[0] must be an integer from 1 to 9007199254740991'],
    ['name=x&name=%00', 'name[1] must not contain a NUL character'],
  ])('rejects an invalid value with 400: %s', async (query, message) => {
    expect(await get(`boxes?${query}`)).toBeError('VALIDATION_FAILED', `${message}.`);
  });
});

describe('path parameters', () => {
  // The id of the cage is 1.
  beforeAll(() => insertRow(app.dataSource, 'cages'));

  it.each(['0', '01', '1e0', '9007199254740992'])(
    'returns 404 for a text that is not an id: %s',
    async (id) => {
      expect(await get(`cages/${id}`)).toBeError('NOT_FOUND', 'Resource not found.');
    },
  );

  it('converts and validates the parameters of a DTO', async () => {
    expect((await get('boxes/pages/12')).body).toEqual({ page: 12 });
    const message = 'page must be an integer from 1 to 99.';
    expect(await get('boxes/pages/100')).toBeError('VALIDATION_FAILED', message);
  });
});

describe('the OpenAPI document', () => {
  it('describes the parameters of paths and queries', async () => {
    const { paths } = await app.getDocument();
    expect(paths['/boxes/pages/{page}']!.get!.parameters).toMatchObject([
      { name: 'page', in: 'path', required: true, description: 'The number of the page.' },
    ]);
    const { parameters } = paths['/boxes']!.get!;
    const limit = { name: 'limit', in: 'query', required: false, description: 'Limit.' };
    expect(parameters).toContainEqual(expect.objectContaining(limit));
    // Swagger UI would send an example.
    const schema: unknown = expect.not.objectContaining({ example: 'text' });
    expect(parameters).toContainEqual({ name: 'text', in: 'query', required: false, schema });
  });
});
