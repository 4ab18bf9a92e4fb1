/** OWASP's rules for the OpenAPI document, with the exceptions of .spectral.yaml, which must not hide anything else. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { getCommand } from '../../../test/platform/support/project-copy.js';
import { type Document, edit, readPublished } from './documents.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');
/** Modules add others, with what their contracts lack. */
const SCHEMAS = new Set(['Category', 'Error', 'NewCategory']);
const TEXT = { type: 'string', pattern: '^a+$' };

/** Returns what Spectral finds in a document: the severity, the rule and the place. */
function lint(document: Document): string[] {
  const args = ['lint', '--stdin-filepath', 'openapi.json', '--format', 'json', '--quiet'];
  const options = { cwd: ROOT, input: JSON.stringify(document), encoding: 'utf8' } as const;
  const { stdout } = spawnSync(getCommand('spectral'), args, options);
  const all = JSON.parse(stdout) as { code: string; severity: number; path: string[] }[];
  return all
    .filter(({ path: [, part, name] }) => part !== 'schemas' || SCHEMAS.has(name!))
    .map(({ code, severity, path }) =>
      [['error', 'warning'][severity], code.split(':').at(-1), ...path].join(' '),
    );
}

describe('npm run lint:openapi', () => {
  it('reports nothing about the categories, warnings included', async () => {
    expect(lint(await readPublished())).toEqual([]);
  });

  it('reports each fault that an exception is close to, and a missing limit of a text as advice', async () => {
    const document = edit(await readPublished(), {
      'components schemas NewCategory properties name maxLength': undefined,
      'components schemas NewCategory properties name pattern': undefined,
      'components schemas NewCategory properties tags': { type: 'array', items: { enum: ['a'] } },
      'components schemas Error properties message maxLength': undefined,
      'components responses Forbidden headers RateLimit': undefined,
      'components responses TooManyRequests headers Retry-After': undefined,
      'paths /categories post parameters 0 schema maxLength': undefined,
      'paths /categories post responses 400': undefined,
      'paths /categories post responses 401': undefined,
      'paths /categories post responses 429': undefined,
      'paths /categories post responses 500': undefined,
      'paths /pets/{petId} get parameters 1': { name: 'q', in: 'query', schema: TEXT },
      'servers 0 description': 'A server.',
      security: undefined,
    });
    expect(lint(document)).toEqual([
      'error 2023-write-restricted',
      'error 2023-rate-limit components responses Forbidden headers',
      'error 2023-rate-limit-retry-after components responses TooManyRequests headers',
      'warning 2023-string-limit components schemas Error properties message',
      'warning 2023-string-limit components schemas NewCategory properties name',
      'warning 2023-string-restricted components schemas NewCategory properties name',
      'warning 2023-array-limit components schemas NewCategory properties tags',
      'warning 2023-string-limit paths /categories post parameters 0 schema',
      'error 2023-rate-limit-responses-429 paths /categories post responses',
      'error 2023-define-error-responses-401 paths /categories post responses',
      // Once for the status, once for its content.
      'error 2023-define-error-responses-500 paths /categories post responses',
      'error 2023-define-error-responses-500 paths /categories post responses',
      'error 2023-define-error-validation paths /categories post responses',
      'warning 2023-string-limit paths /pets/{petId} get parameters 1 schema',
      'error 2023-inventory-environment servers 0 description',
    ]);
  });
});
