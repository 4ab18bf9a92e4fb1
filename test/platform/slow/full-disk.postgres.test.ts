/* oxlint-disable jest/no-standalone-expect -- `requires` returns `it` or `it.skip` */
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startApp, type TestApp } from '../support/app.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { waitFor } from '../support/wait.js';

const canMount = commandSucceeds('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);

let disk: string;
let server: PostgresServer;
let app: TestApp;
beforeEach(async () => {
  if (!canMount) return;
  disk = await mkdtemp(join(tmpdir(), 'petstore-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=200m', 'tmpfs', disk]);
  await chmod(disk, 0o755);
  server = await startPostgres(undefined, { parent: disk });
  const config = { type: 'postgres', url: server.url } as const;
  app = await startApp({ database: { config } });
});
afterEach(async () => {
  if (!canMount) return;
  await app.stop();
  await server.stop();
  execFileSync('umount', ['--lazy', disk]);
  await rm(disk, { recursive: true });
});

const create = () => app.categories.create('dog', 'x'.repeat(1_000));

requires('to mount a tmpfs', canMount).describe('a full disk of PostgreSQL', () => {
  it('rejects creates with 503, makes the instance unready, and recovers once there is space', async () => {
    const filler = join(disk, 'filler');
    const { bavail, bsize } = await statfs(disk);
    await writeFile(filler, Buffer.alloc(bavail * bsize - 64 * 1024));
    await waitFor(create, ({ status }) => status === 503);
    const failedAt = performance.now();
    await waitFor(
      async () => {
        expect(await create()).toBeError('SERVICE_UNAVAILABLE');
        return (await app.send('GET', '/readyz')).status;
      },
      (status) => status === 503,
    );
    // The time that docs/install.md promises.
    expect(performance.now() - failedAt).toBeLessThan(5_000);
    for (let round = 0; round < 20; round++) {
      expect(await create()).toBeError('SERVICE_UNAVAILABLE');
      expect(await app.send('GET', '/readyz')).toBeError('SERVICE_UNAVAILABLE');
    }
    await rm(filler);
    await waitFor(
      () => app.send('GET', '/readyz'),
      ({ status }) => status === 200,
    );
    expect((await create()).status).toBe(201);
  });
});
