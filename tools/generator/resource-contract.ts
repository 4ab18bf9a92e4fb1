/** Makes the contract that `npm run generate -- resource <name>` writes: one text, and all operations. */
import type { Json } from './read/json.js';
import { toCamelCase, toPascalCase, toSentence, toSingular } from './names.js';

const toContent = (schema: Json): Json => ({ content: { 'application/json': { schema } } });

const page = (parameter: string, schema: Json): Json => ({
  name: parameter,
  in: 'query',
  schema: { type: 'integer', ...schema },
});

/** @param name the plural of the resource */
export function toResourceContract(name: string): Json {
  const singular = toPascalCase(toSingular(name));
  const plural = toPascalCase(name);
  const words = toSentence(toSingular(name)).toLowerCase();
  const $ref = `#/components/schemas/${singular}`;
  const body = { required: true, ...toContent({ $ref: `#/components/schemas/New${singular}` }) };
  const one = { description: `The ${words}.`, ...toContent({ $ref }) };
  const toOperation = (
    verb: string,
    summary: string,
    status: number,
    response: Json,
    others: Json = {},
  ): Json => ({
    operationId: `${toCamelCase(verb)}${verb === 'list' ? plural : singular}`,
    summary,
    tags: [name],
    ...others,
    responses: { [status]: response },
  });
  const idParameter = { name: 'id', in: 'path', required: true, schema: { type: 'integer' } };
  const parameters = [
    page('limit', { minimum: 1, maximum: 100, default: 20 }),
    page('after', { minimum: 1 }),
  ];
  const text = { type: 'string', minLength: 1, maxLength: 100, description: 'Its name.' };
  const patch = {
    required: true,
    content: {
      'application/merge-patch+json': { schema: { $ref: `#/components/schemas/${singular}Patch` } },
    },
  };
  return {
    openapi: '3.1.1',
    info: { title: toSentence(name), version: '1.0.0' },
    tags: [{ name, description: toSentence(name) }],
    paths: {
      [`/${name}`]: {
        get: toOperation(
          'list',
          `List ${name}`,
          200,
          { description: `A page of ${name}.`, ...toContent({ type: 'array', items: { $ref } }) },
          { parameters },
        ),
        post: toOperation('create', `Create a ${words}`, 201, one, { requestBody: body }),
      },
      [`/${name}/{id}`]: {
        parameters: [idParameter],
        get: toOperation('read', `Read a ${words}`, 200, one),
        put: toOperation('replace', `Replace a ${words}`, 200, one, { requestBody: body }),
        patch: toOperation('patch', `Patch a ${words}`, 200, one, { requestBody: patch }),
        delete: toOperation('delete', `Delete a ${words}`, 204, { description: 'Deleted.' }),
      },
    },
    components: {
      schemas: {
        [singular]: {
          type: 'object',
          required: ['id', 'name'],
          properties: { id: { type: 'integer', readOnly: true }, name: text },
        },
        [`New${singular}`]: { type: 'object', required: ['name'], properties: { name: text } },
        [`${singular}Patch`]: { type: 'object', properties: { name: text } },
      },
    },
  };
}
