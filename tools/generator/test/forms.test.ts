import { format } from 'prettier';
import type { Module } from '../model.js';
import { formatReport } from '../report.js';
import { writeApi } from '../write/api-file.js';
import { writeTest } from '../write/test-file.js';
import { getNotes, getResults, toDocument, toModule, toResponses } from './excerpts.js';

const HOOK = `{ $ref: '#/components/schemas/Hook' }`;
const PROPERTIES =
  'url: { type: string }, push_events: { type: boolean }, metadata: { type: object, additionalProperties: { type: string } }';

/** Hooks, whose POST and PUT have forms, as Stripe and GitLab publish them. */
const toHooks = ({
  properties = '',
  encoding = '',
  others = '',
  required = 'url',
} = {}): Module => {
  const schema = `schema: { type: object, required: [${required}], properties: { ${PROPERTIES}, ${properties} } }`;
  const form = `application/x-www-form-urlencoded: { ${schema}, encoding: { ${encoding} } }`;
  const body = `requestBody: { content: { ${form}, ${others} } }`;
  return toModule(
    toDocument(`
paths:
  /hooks:
    post: { operationId: createHook, ${body}, ${toResponses(HOOK, 201)} }
  /hooks/{id}:
    get: { operationId: getHook, ${toResponses(HOOK)} }
    put: { operationId: putHook, ${body}, ${toResponses(HOOK)} }
components:
  schemas: { Hook: { type: object, properties: { id: { type: integer, readOnly: true }, ${PROPERTIES} } } }
`),
  );
};

const IMPLEMENTED = {
  'POST /hooks': 'implemented',
  'GET /hooks/{id}': 'implemented',
  'PUT /hooks/{id}': 'implemented',
};

describe('a body that is a form', () => {
  it.each([
    ['', ''],
    ['metadata: { style: deepObject, explode: true }', ''],
    ['metadata: { contentType: application/json }, url: { contentType: text/plain }', ''],
    ['events: { style: form, explode: true }', 'events: { type: array, items: { type: string } }'],
    ['', 'data: {}'],
  ])('is stored with the encoding { %s }', (encoding, properties) => {
    const module = toHooks({ encoding, properties });
    expect(getResults(module)).toEqual(IMPLEMENTED);
    // A form without fields has no bytes.
    expect(module.operations[0]!.body).toMatchObject({ isForm: true, required: true });
  });

  it.each([
    ['metadata: { style: form }', '', 'metadata'],
    ['metadata: { explode: true }', '', 'metadata'],
    ['metadata: { contentType: application/xml }', '', 'metadata'],
    ['url: { contentType: application/json }', '', 'url'],
    ['events: { explode: false }', 'events: { type: array, items: { type: string } }', 'events'],
    [
      'events: { style: pipeDelimited }',
      'events: { type: array, items: { type: string } }',
      'events',
    ],
  ])('is a stub with the encoding { %s }', (encoding, properties, name) => {
    const module = toHooks({ encoding, properties });
    const reason = `the form encodes ${name} in a style of its own`;
    expect(getResults(module)).toMatchObject({ 'POST /hooks': reason, 'PUT /hooks/{id}': reason });
    expect(formatReport(module)).toMatch(/remedy, of \d: add a body of application\/json\.$/);
  });

  it.each([
    '{ anyOf: [{ type: integer }, { type: string }] }',
    '{ type: array, items: { oneOf: [{ type: integer }, { type: boolean }] } }',
  ])('is a stub if a text may be several values: %s', (schema) => {
    const reason = 'nothing says what a text in the form is as amount';
    expect(getResults(toHooks({ properties: `amount: ${schema}` }))['POST /hooks']).toBe(reason);
  });

  it('is not one if the contract has JSON, too', () => {
    const others = `application/json: { schema: { type: object, properties: { ${PROPERTIES} } } }`;
    const module = toHooks({ others });
    expect(module.operations[0]!.body).toMatchObject({ isForm: false });
    expect(getNotes(module)).toContain(
      'Bodies are JSON alone, not application/x-www-form-urlencoded.',
    );
  });

  it('is accepted instead of others, as the notes say', () => {
    const module = toHooks({ others: 'multipart/form-data: {}' });
    expect(getNotes(module)).toContain('Bodies are forms alone, not multipart/form-data.');
  });

  it('is written with its decorator, and tested with values that a text can be invalid with', async () => {
    const files = [writeApi(toHooks()), writeTest(toHooks())!].map(({ code }) =>
      format(code, { parser: 'typescript' }),
    );
    const [api, test] = await Promise.all(files);
    expect(api).toContain('@FormBody({ type: () => CreateHookRequest })');
    expect(api).not.toContain('@Body()');
    expect(test).toContain('invalid: { url: [["a", "b"]] }');
  });
});
