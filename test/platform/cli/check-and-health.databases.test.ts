import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { main as check } from '../../../src/cli/check.js';
import { getRelease } from '../../../src/platform/config/product.js';
import { PRODUCT } from '../../../src/product.js';
import { createDatabase, useApp } from '../support/app.js';
import { type CommandResult, runCommand, spawnCommand } from '../support/cli.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';
import { listen } from '../support/server.js';

const app = useApp();

const runCheck = (env: NodeJS.ProcessEnv = {}): Promise<CommandResult> =>
  runCommand(check, [], { DATABASE_URL: app.databaseUrl, ...env });

const failure = (message: string): CommandResult => ({
  code: 1,
  stdout: '',
  stderr: expect.stringMatching(`^error: .*${message}`) as string,
});

describe('check', () => {
  it('prints the version with --version', async () => {
    const stdout = `${getRelease(PRODUCT)}\n`;
    expect(await runCommand(check, ['--version'], {})).toEqual({ code: 0, stdout, stderr: '' });
  });

  it('accepts a valid configuration and a database with the current schema', async () => {
    const stdout = 'The configuration and the database are valid.\n';
    expect(await runCheck()).toEqual({ code: 0, stdout, stderr: '' });
  });

  it('reports all errors of the configuration at once', async () => {
    const { code, stderr } = await runCheck({ PORT: 'x', LOG_LEVEL: 'loud' });
    expect(code).toBe(1);
    expect(stderr).toMatch(/PORT[^]*LOG_LEVEL|LOG_LEVEL[^]*PORT/);
  });

  it('rejects a database without the tables, and does not create them', async () => {
    const empty = await createDatabase();
    for (let runs = 0; runs < 2; runs++) {
      const { code, stderr } = await runCheck({ DATABASE_URL: empty.url });
      expect(code).toBe(1);
      expect(stderr).toMatch(DATABASE === 'sqlite' ? /does not exist/ : /schema is outdated/);
    }
    await empty.drop();
  });
});

describeOnSqlite('check', () => {
  it('does not change the file of another application', async () => {
    const other = await createDatabase();
    const { file } = other.config as { file: string };
    new Database(file).exec('CREATE TABLE "notes" ("text" text)').close();
    const before = readFileSync(file);
    expect(await runCheck({ DATABASE_URL: other.url })).toEqual(failure('is outdated'));
    expect(readFileSync(file).equals(before)).toBe(true);
    await other.drop();
  });
});

describeOnPostgres('check', () => {
  it('rejects a database whose settings the service cannot work with', async () => {
    const options = encodeURIComponent('-c default_transaction_isolation=serializable');
    const result = await runCheck({ DATABASE_URL: `${app.databaseUrl}?options=${options}` });
    expect(result).toEqual(failure('default_transaction_isolation'));
  });
});

const runHealth = (url: string, args: string[], env: NodeJS.ProcessEnv = {}) =>
  spawnCommand('health', args, { env: { PORT: new URL(url).port, ...env } }).result;

describe('health', () => {
  it('fails if the service does not respond and, only with --ready, if it is not ready', async () => {
    const SUCCESS = { code: 0, stdout: '', stderr: '' };
    for (const args of [[], ['--ready']]) expect(await runHealth(app.url, args)).toEqual(SUCCESS);
    const server = await listen(({ url }, response) =>
      response.writeHead(url === '/livez' ? 200 : 503).end(),
    );
    expect(await runHealth(server.url, [])).toEqual(SUCCESS);
    expect(await runHealth(server.url, ['--ready'])).toEqual(failure('/readyz responds with 503'));
    server.close();
    for (const HOST of ['127.0.0.1', '::1'])
      expect(await runHealth(server.url, [], { HOST })).toEqual(
        failure(`connect E\\w+ ${HOST}:\\d+`),
      );
  });
});
