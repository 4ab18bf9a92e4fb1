import { Controller, Get } from '@nestjs/common';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { IdParam } from '../../../src/platform/resource/operation/id-param.decorator.js';
import { Operation } from '../../../src/platform/resource/operation/operation.decorator.js';
import { useApp } from '../../../test/platform/support/app.js';
import { toRoute } from '../write/api-file.js';

@Controller()
class SlashesController {
  @Get(toRoute('/'))
  @Operation({ operationId: 'readRoot' })
  readRoot(): void {
    // It only has a path.
  }

  @Get(toRoute('/files/{date}_PI.xml'))
  @Operation({ operationId: 'readFile', response: 'The date.', returns: { type: 'string' } })
  readFile(@IdParam('date', { type: 'text' }) date: string): string {
    return date;
  }

  @Get(toRoute('/slashes/'))
  @Operation({ operationId: 'listSlashes' })
  listSlashes(): void {
    // It only has a path.
  }
}

@Feature({ tag: { name: 'slashes', description: 'Slashes' }, controllers: [SlashesController] })
class SlashesModule {}

describe('the path of a generated operation', () => {
  const app = useApp({ features: [SlashesModule] });

  it('may have a parameter before a letter', async () => {
    expect((await app.send('GET', '/v1/files/20261124_PI.xml')).text).toContain('20261124');
    expect((await app.send('GET', '/v1/files/20261124.xml')).status).toBe(404);
    const { paths } = (await app.http().get('/openapi.json')).body as { paths: object };
    expect(Object.keys(paths)).toContain('/files/{date}_PI.xml');
  });

  // Nest removes one slash at the end of what a decorator says; this fails if that changes.
  it.each(['/', '/slashes/'])(
    'is served and documented with its slash at the end: %s',
    async (path) => {
      const statuses = ['GET', 'DELETE'].map(
        async (each) => (await app.send(each, `/v1${path}`)).status,
      );
      expect(await Promise.all(statuses)).toEqual([200, 405]);
      expect((await app.send('GET', `/v1${path.slice(0, -1)}`)).status).toBe(404);
      const { paths } = (await app.http().get('/openapi.json')).body as { paths: object };
      expect(Object.keys(paths)).toContain(path);
    },
  );
});
