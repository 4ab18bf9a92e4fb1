import { Logger } from '@nestjs/common';
import { DatabaseHealth } from '../../../src/platform/database/connection/database-health.js';
import { DatabaseUnavailableError } from '../../../src/platform/database/connection/driver-errors.js';
import type { ServiceDataSource } from '../../../src/platform/database/connection/service-data-source.js';
import { MemoryLogger } from '../support/memory-logger.js';

const { jest } = import.meta;

/** A database that is unavailable for a while, and the requests meanwhile. All times are in milliseconds. */
interface Outage {
  readonly isDown: (time: number) => boolean;
  /** The time until a statement fails. */
  readonly failsAfter?: number;
  /** The time between two requests. */
  readonly pause?: number;
  /** Whether only the statements of requests fail, and not the check. */
  readonly isPartial?: boolean;
}

const isDown = (time: number): boolean => time >= 10_000 && time < 30_000;
const isBrieflyDown = (time: number): boolean => time >= 10_000 && time < 10_100;

const OUTAGES: [string, Outage][] = [
  ['refuses connections', { isDown }],
  ['hangs', { isDown, failsAfter: 2_000 }],
  ['hangs, with few requests', { isDown, failsAfter: 2_000, pause: 3_000 }],
  ['hangs for one table', { isDown, failsAfter: 2_000, isPartial: true }],
  ['denies access to one table', { isDown, isPartial: true }],
  ['is lost and found every 3 seconds', { isDown: (time) => isDown(time) && time % 6_000 < 3_000 }],
];

let logger: MemoryLogger;
beforeEach(() => {
  jest.useFakeTimers();
  logger = new MemoryLogger();
  Logger.overrideLogger(logger);
});
afterEach(() => {
  jest.useRealTimers();
  Logger.overrideLogger(false);
});

/** Sends requests for a minute, and returns the lines of the log. */
async function simulate(outage: Outage): Promise<string[]> {
  const { failsAfter = 0, pause = 50, isPartial } = outage;
  const startedAt = performance.now();
  let report!: (error: unknown) => void;
  const run = async (): Promise<void> => {
    if (!outage.isDown(performance.now() - startedAt)) return;
    await new Promise((resolve) => setTimeout(resolve, failsAfter));
    const error = new DatabaseUnavailableError(new Error('lost'));
    report(error);
    throw error;
  };
  const dataSource = {
    checkWritable: isPartial ? () => Promise.resolve() : run,
    onError: (listener: typeof report) => (report = listener),
  } as unknown as ServiceDataSource;
  const shutdown = new AbortController();
  const health = new DatabaseHealth(dataSource, shutdown.signal);
  health.start();
  setInterval(() => void run().catch(() => undefined), pause);
  await jest.advanceTimersByTimeAsync(60_000);
  shutdown.abort();
  return logger.entries.map(({ level, values }) => `${level} ${String(values[0])}`);
}

describe('DatabaseHealth', () => {
  it.each(OUTAGES)('logs two lines for a database that %s', async (_name, outage) => {
    expect(await simulate(outage)).toEqual([
      'error Database connection failed: lost, retrying every 1000 ms',
      expect.stringMatching(/^log Database connection restored after (1[4-9]|2[0-2])\.\d s$/),
    ]);
  });

  it('logs two lines for statements that fail at the same time', async () => {
    const outage = { isDown: isBrieflyDown, failsAfter: 10, pause: 20, isPartial: true };
    expect(await simulate(outage)).toEqual([
      'error Database connection failed: lost, retrying every 1000 ms',
      'log Database connection restored after 0.1 s',
    ]);
  });

  it('checks the database once a second, however often it is asked', async () => {
    const checkWritable = jest.fn(() => Promise.resolve());
    const dataSource = { checkWritable } as unknown as ServiceDataSource;
    const health = new DatabaseHealth(dataSource, new AbortController().signal);
    for (let time = 0; time < 10_000; time += 10) {
      await Promise.all(Array.from({ length: 64 }, () => health.checkWritable()));
      await jest.advanceTimersByTimeAsync(10);
    }
    expect(checkWritable).toHaveBeenCalledTimes(10);
  });
});
