import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { ApiOperation, ApiTags, type OpenAPIObject } from '@nestjs/swagger';
import { Feature, getTags } from '../src/platform/feature.decorator.js';
import { IdParam } from '../src/platform/resource/id-param.decorator.js';
import {
  ArrayProperty,
  BooleanProperty,
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

  @BooleanProperty({ optional: true, description: 'Whether it is done.', example: false })
  done?: boolean;
}

class NoteParams {
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
  getPage(@Param() params: NoteParams): NoteParams {
    return params;
  }

  @Get(':noteId')
  @ApiOperation({ operationId: 'getNote', summary: 'Read a note' })
  getNote(
    @IdParam('noteId', { description: 'The id of the note.', example: 5 }) id: number,
  ): object {
    return { id };
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
const get = (path: string) => app.http().get(`/v1/notes/${path}`).auth(app.key, { type: 'bearer' });

describe('properties without an upper limit', () => {
  it.each([
    [{ text: 'x'.repeat(20_000) }],
    [{ text: null }],
    [{ text: 'ab', numbers: Array.from({ length: 2000 }, () => 1), counts: { a: 1, b: 2 } }],
  ])('accept every value of the type', async (note) => {
    const response = await create(note);
    expect(response.status).toBe(201);
    expect(response.body).toEqual(note);
  });

  it.each([
    [{ text: 'x' }, 'text must be at least 2 characters long.'],
    [{ text: 'ab', numbers: [] }, 'numbers must have at least 1 items.'],
    [{ text: 'ab', numbers: null }, 'numbers must be an array.'],
  ])('reject %j', async (note, message) => {
    expect(await create(note)).toMatchObject({ status: 400, body: { message } });
  });

  it('have the given examples and no limits in the OpenAPI document', () => {
    expect(document.components!.schemas!['Note']).toMatchObject({
      required: ['text'],
      properties: {
        text: {
          type: 'string',
          minLength: 2,
          nullable: true,
          description: 'The text.',
          example: 'two',
        },
        numbers: {
          type: 'array',
          minItems: 1,
          example: [3],
          items: { type: 'integer', description: 'A number.', example: 7 },
        },
        counts: { type: 'object', additionalProperties: { type: 'integer' } },
        done: { type: 'boolean', example: false },
      },
    });
    expect(JSON.stringify(document.components!.schemas!['Note'])).not.toMatch(
      /maxLength|maxItems|maxProperties|Infinity|null,/,
    );
  });
});

describe('path parameters of a DTO', () => {
  it('are converted and validated', async () => {
    expect(await get('pages/12')).toMatchObject({ status: 200, body: { page: 12 } });
    for (const page of ['100', 'x'])
      expect(await get(`pages/${page}`)).toMatchObject({
        status: 400,
        body: { message: 'page must be an integer from 1 to 99.' },
      });
  });

  it('are declared in the OpenAPI document', () => {
    expect(document.paths['/notes/pages/{page}']!.get!.parameters).toMatchObject([
      { name: 'page', in: 'path', required: true, description: 'The number of the page.' },
    ]);
    expect(document.paths['/notes/{noteId}']!.get!.parameters).toMatchObject([
      { name: 'noteId', description: 'The id of the note.', schema: { example: 5 } },
    ]);
  });
});

describe('the tags of a feature', () => {
  it('may be several, and are declared once', () => {
    expect(document.tags).toEqual([NOTES, OTHERS]);
    expect(getTags([NotesModule, MoreNotesModule])).toEqual([NOTES, OTHERS]);
  });
});
