import { main as check } from '../../../src/cli/check.js';
import { main as health } from '../../../src/cli/health.js';
import { createDatabase, useApp } from '../support/app.js';
import { type CommandResult, runCommand } from '../support/cli.js';
import { DATABASE } from '../support/databases.js';

const app = useApp();

const runCheck = (env: NodeJS.ProcessEnv = {}): Promise<CommandResult> =>
  runCommand(check, [], { DATABASE_URL: app.databaseUrl, ...env });

const runHealth = (port: string, ...args: string[]): Promise<CommandResult> =>
  runCommand(health, args, { DATABASE_URL: app.databaseUrl, PORT: port });

describe('check', () => {
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

describe('health', () => {
  it('succeeds while the service responds, and fails if it does not', async () => {
    const { port } = new URL(app.url);
    for (const args of [[], ['--ready']])
      expect(await runHealth(port, ...args)).toEqual({ code: 0, stdout: '', stderr: '' });
    // The discard port, at which nothing listens.
    const stderr = expect.stringMatching(/^error: /) as string;
    expect(await runHealth('9')).toMatchObject({ code: 1, stderr });
  });
});
