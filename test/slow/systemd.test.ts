/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need systemd-analyze */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/platform/config/config.js';
import { NAME } from '../../src/platform/config/product.js';
import { requires } from '../support/requirements.js';

const UNIT = join(import.meta.dirname, '..', '..', 'deploy', `${NAME}@.service`);
/** Ten times the highest accepted exposure, of 10. */
const EXPOSURE_THRESHOLD = 15;
/** The documented maximum of a shutdown without its delay. */
const SHUTDOWN_TIMEOUT_MS = 10_000;

const analyze = (...args: string[]) =>
  spawnSync('systemd-analyze', [...args, UNIT], { encoding: 'utf8' });
const systemd = requires('systemd-analyze');

const unit = readFileSync(UNIT, 'utf8');
/** Returns the values of a setting in the process of an instance. */
const getSettings = (name: string, instance = '1'): string[] =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) =>
    value!.replaceAll('%i', instance).replaceAll('%S', '/var/lib').replaceAll('%C', '/var/cache'),
  );

/** Returns the environment of the process of an instance, without that of `EnvironmentFile`. */
const getEnvironment = (instance: string): Record<string, string> =>
  Object.fromEntries(
    getSettings('Environment', instance)
      .flatMap((line) => line.split(' '))
      .map((assignment) => assignment.split(/=(.*)/s)),
  );

systemd.describe('petstore@.service', () => {
  it('is valid', () => {
    const { status, stderr } = analyze('verify');
    expect([status, stderr]).toEqual([0, '']);
  });

  it(`has an exposure level of at most ${EXPOSURE_THRESHOLD / 10}`, () => {
    const { status, stdout } = analyze(
      'security',
      '--offline=true',
      `--threshold=${EXPOSURE_THRESHOLD}`,
    );
    expect([status, stdout]).toEqual([0, expect.stringContaining('Overall exposure level')]);
    // V8 could not compile JavaScript.
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute=/m);
  });
});

describe('petstore@.service', () => {
  it('runs each instance on ports of its own, which nginx.conf names, and all on one database', () => {
    const [first, second] = ['1', '2'].map((instance) => loadConfig(getEnvironment(instance)));
    expect([first!.port, first!.metricsPort]).toEqual([3001, 9461]);
    expect([second!.port, second!.metricsPort]).toEqual([3002, 9462]);
    const [directory] = getSettings('StateDirectory');
    const database = { type: 'sqlite', file: `/var/lib/${directory}/${NAME}.sqlite` };
    expect([first!.database, second!.database]).toEqual([database, database]);
    const nginx = readFileSync(join(UNIT, '..', 'nginx.conf'), 'utf8');
    const servers = [...nginx.matchAll(/^ *server (\S+:\d+) /gm)].map(([, server]) => server);
    expect(servers).toEqual([first, second].map((config) => `${config!.host}:${config!.port}`));
    const timeout = Number(/^ *keepalive_timeout (\d+)s;/m.exec(nginx)![1]);
    expect(timeout * 1000).toBeLessThan(first!.keepAliveTimeout);
  });

  it('waits for the longest shutdown before SIGKILL', () => {
    const { shutdownDelay } = loadConfig({ SHUTDOWN_DELAY_MS: '60000' });
    expect(() => loadConfig({ SHUTDOWN_DELAY_MS: '60001' })).toThrow('SHUTDOWN_DELAY_MS');
    const timeout = Number(getSettings('TimeoutStopSec')[0]) * 1000;
    expect(timeout).toBeGreaterThan(shutdownDelay + SHUTDOWN_TIMEOUT_MS);
  });
});
