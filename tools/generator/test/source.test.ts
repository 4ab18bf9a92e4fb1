import { format } from 'prettier';
import { toClassName, toMemberName, toSnakeCase } from '../names.js';
import { writeApi } from '../write/api-file.js';
import { writeEntity, writeMigration } from '../write/entity-file.js';
import { writeModule, writeService } from '../write/service-file.js';
import { writeTest } from '../write/test-file.js';
import { pets, toModule } from './excerpts.js';
import { edit } from '../../openapi/test/documents.js';

describe('a name of code', () => {
  it.each([
    ['Links-Self', 'LinksSelf', 'linksSelf', 'links_self'],
    ['get-stations', 'GetStations', 'getStations', 'get_stations'],
    ['Date', 'DateSchema', 'date', 'date'],
    ['delete', 'DeleteSchema', 'deleteValue', 'delete'],
    ['HTTPServer2', 'HTTPServer2', 'httpServer2', 'http_server2'],
    ['2fa', 'X2fa', 'x2fa', '2fa'],
    ['日本', 'Schema', 'unnamed', 'unnamed'],
    [`a');b('`, 'AB', 'aB', 'a_b'],
  ])('is derived from %s', (name, className, member, snake) =>
    expect([toClassName(name), toMemberName(name), toSnakeCase(name)]).toEqual([
      className,
      member,
      snake,
    ]),
  );
});

describe('generated code', () => {
  const CANARY = 'canary()';
  it.each([
    `*/ ${CANARY} /*`,
    `'); ${CANARY}; ('`,
    '`${canary()}`',
    `\\'); ${CANARY} //`,
    `a\n${CANARY}\u2028${CANARY}\r\n`,
    '</script>{{canary()}}',
  ])('has no code from the text %j of a contract', async (text) => {
    const document = edit(
      pets({ properties: '{ id: { type: integer, readOnly: true }, name: { type: string } }' }),
      {
        'paths /pets get summary': text,
        'paths /pets get description': text,
        'paths /pets get operationId': `list${text}`,
        'paths /pets post tags': [text],
        'components schemas Pet description': text,
        'components schemas Pet properties name description': text,
        'components schemas Pet properties name default': text,
        'components schemas Pet properties name enum': [text],
      },
    );
    (document.components.schemas.Pet.properties as object)[text as never] = {
      type: 'string',
    } as never;
    const module = toModule(document);
    const resource = module.resources[0]!;
    const files = [
      writeApi(module),
      writeService(module),
      writeModule(module, new Map([[resource.name, 1]])),
      writeEntity(module, resource),
      writeMigration(module, resource, 1),
      writeTest(module)!,
    ];
    for (const file of files) {
      const code = await format(file, { parser: 'typescript', singleQuote: true });
      const bare = code
        .replaceAll(/'(\\.|[^'\\\n])*'|"(\\.|[^"\\\n])*"/g, '')
        .replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, '');
      expect(bare).not.toContain('canary()');
    }
  });
});
