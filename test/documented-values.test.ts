import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { ApiOperation, ApiTags, type OpenAPIObject } from '@nestjs/swagger';
import { Feature, getTags } from '../src/platform/feature.decorator.js';
import {
  ArrayProperty,
  IntegerProperty,
  MapProperty,
  StringProperty,
} from '../src/platform/resource/property.decorators.js';
import { startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

const NUMBER = IntegerProperty({ format: 'int32', description: 'A number.', example: 7 });

class Note {
  @StringProperty({ minLength: 2, nullable: true, description: 'The text.', example: 'two' })
  text!: string | null;

  @ArrayProperty({ items: NUMBER, minItems: 1, optional: true, description: 'Some.', example: [3] })
  numbers?: number[];

  @MapProperty({ values: NUMBER, optional: true, description: 'Some by name.' })
  counts?: Record<string, number>;
}

class PageParams {
  @IntegerProperty({ minimum: 1, maximum: 99, description: 'The number of the page.', example: 4 })
  page!: number;
}

@ApiTags('notes')
@Controller('notes')
class NotesController {
  @Post()
  @ApiOperation({ operationId: 'createNote', summary: 'Create a note' })
  create(@Body() note: Note): Note {
    return note;
  }

  @Get('pages/:page')
  @ApiOperation({ operationId: 'getPage', summary: 'Read a page' })
  getPage(@Param() params: PageParams): PageParams {
    return params;
  }
}

const NOTES = { name: 'notes', description: 'Notes' };
const OTHERS = { name: 'others', description: 'Other things' };

@Feature({ tag: [NOTES, OTHERS], controllers: [NotesController] })
class NotesModule {}

@Feature({ tag: { ...NOTES, description: 'More notes' } })
class MoreNotesModule {}

let app: TestApp;
let document: OpenAPIObject;
beforeAll(async () => {
  app = await startApp({ features: [NotesModule] });
  document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
});
afterAll(() => app.stop());

const create = (note: object) =>
  app.http().post('/v1/notes').auth(app.key, { type: 'bearer' }).send(note);

describe('properties without an upper limit', () => {
  it.each([
    [{ text: 'x'.repeat(20_000) }],
    [{ text: null }],
    [{ text: 'ab', numbers: Array.from({ length: 2000 }, () => 1), counts: { a: 1, b: 2 } }],
  ])('accept every value of the type', async (note) => {
    expect(await create(note)).toMatchObject({ status: 201, body: note });
  });

  it.each([
    [{ text: 'x' }, 'text must be at least 2 characters long.'],
    [{ text: 'ab', numbers: [] }, 'numbers must have at least 1 items.'],
    [{ text: 'ab', numbers: null }, 'numbers must be an array.'],
  ])('reject %j', async (note, message) => {
    expect(await create(note)).toBeError('VALIDATION_FAILED', message);
  });

  it('have the given examples and no limits in the OpenAPI document', () => {
    const { Note: note } = document.components!.schemas!;
    expect(note).toMatchObject({
      required: ['text'],
      properties: {
        text: { minLength: 2, nullable: true, description: 'The text.', example: 'two' },
        numbers: { minItems: 1, example: [3], items: { type: 'integer', example: 7 } },
        counts: { type: 'object', additionalProperties: { type: 'integer' } },
      },
    });
    expect(JSON.stringify(note)).not.toMatch(/maxLength|maxItems|maxProperties|Infinity|null,/);
  });
});

describe('path parameters of a DTO', () => {
  it.each([
    ['12', 200, { page: 12 }],
    ['100', 400, { message: 'page must be an integer from 1 to 99.' }],
    ['x', 400, { message: 'page must be an integer from 1 to 99.' }],
  ])('are converted and validated: %s', async (page, status, body) => {
    const response = await app.send('GET', `/v1/notes/pages/${page}`);
    expect([response.status, response.json()]).toMatchObject([status, body]);
  });

  it('are declared in the OpenAPI document', () => {
    expect(document.paths['/notes/pages/{page}']!.get!.parameters).toMatchObject([
      { name: 'page', in: 'path', required: true, description: 'The number of the page.' },
    ]);
  });
});

describe('the tags of a feature', () => {
  it('may be several, and are declared once', () => {
    expect(document.tags).toEqual([NOTES, OTHERS]);
    expect(getTags([NotesModule, MoreNotesModule])).toEqual([NOTES, OTHERS]);
  });
});
