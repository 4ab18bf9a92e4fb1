/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need openssl */
import { execFile } from 'node:child_process';
import { chmod, chown, copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startApp } from '../support/app.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { queryPostgres, waitUntilDisconnected } from '../support/postgres-client.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const openssl = requires('openssl', commandSucceeds('openssl', ['version']));

let directory: string;
let server: PostgresServer;

/** Creates a key and a certificate, by default one that signs itself. */
async function createCertificate(name: string, ...options: string[]): Promise<void> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc'];
  const files = ['-keyout', `${name}.key`, '-out', `${name}.crt`, '-subj', `/CN=${name}`];
  await promisify(execFile)('openssl', ['req', '-x509', ...key, ...files, ...options], {
    cwd: directory,
  });
}

/** The URL of the server for a client that trusts an authority. */
function getVerifiedUrl(host: string, authority: string): string {
  const query = `?sslmode=verify-full&sslrootcert=${join(directory, authority)}.crt`;
  return server.url.replace('127.0.0.1', host) + query;
}

/** Makes the server use a certificate of this authority for new connections. */
async function useCertificate(authority: string): Promise<void> {
  const { uid, gid } = await stat(server.data);
  for (const end of ['crt', 'key']) {
    const file = join(server.data, `server.${end}`);
    await copyFile(join(directory, `${authority}-server.${end}`), file);
    await chown(file, uid, gid);
    await chmod(file, 0o600);
  }
  await queryPostgres(server.url, 'ALTER SYSTEM SET ssl = on');
  await queryPostgres(server.url, 'SELECT pg_reload_conf()');
  // The server reads its configuration later.
  await waitFor(() =>
    queryPostgres(getVerifiedUrl('localhost', authority), 'SELECT').then(Boolean, () => false),
  );
}

const SERVICE = `pg_stat_activity WHERE "application_name" = '${PRODUCT.name}'`;

/** Starts the service with `sslmode=verify-full`. */
function serve(host: string, authority: string, logger = new MemoryLogger()) {
  const url = getVerifiedUrl(host, authority);
  return startApp({ database: { config: { type: 'postgres', url } }, logger });
}

openssl.describe('PostgreSQL with sslmode=verify-full', () => {
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-tls-'));
    server = await startPostgres();
    for (const authority of ['ca', 'other-ca']) {
      await createCertificate(authority);
      const signed = ['-CA', `${authority}.crt`, '-CAkey', `${authority}.key`];
      await createCertificate(
        `${authority}-server`,
        ...signed,
        '-addext',
        'subjectAltName=DNS:localhost',
      );
    }
    await useCertificate('ca');
  });
  afterAll(async () => {
    await server.stop();
    await rm(directory, { recursive: true });
  });

  it('connects over TLS, and fails while the certificate is that of another authority', async () => {
    const logger = new MemoryLogger();
    const app = await serve('localhost', 'ca', logger);
    const { categories } = app;
    expect((await categories.create('before')).status).toBe(201);
    const plain = `SELECT 1 FROM pg_stat_ssl WHERE NOT "ssl" AND "pid" IN (SELECT "pid" FROM ${SERVICE})`;
    expect(await queryPostgres(server.url, plain)).toEqual([]);
    await useCertificate('other-ca');
    await queryPostgres(server.url, `SELECT pg_terminate_backend("pid") FROM ${SERVICE}`);
    await waitUntilDisconnected(app.dataSource);
    expect((await categories.create('during')).status).toBe(503);
    expect(logger.text).toMatch(/Database connection failed: .*certificate/);
    await useCertificate('ca');
    await waitFor(
      () => categories.create('after'),
      ({ status }) => status === 201,
    );
    expect(await categories.getNames()).toEqual(expect.arrayContaining(['before', 'after']));
    await app.stop();
  });

  it.each([
    ['of another authority', 'localhost', 'other-ca', /certificate/],
    ['for another host', '127.0.0.1', 'ca', /127\.0\.0\.1 is not in the cert's list/],
  ])('fails startup with a certificate %s', async (_case, host, authority, reason) => {
    const message = new RegExp(`^Failed to open database: .*${reason.source}`);
    await expect(serve(host, authority)).rejects.toThrow(message);
  });
});
