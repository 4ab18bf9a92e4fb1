import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { NAME } from '../../src/platform/config/product.js';
import { LoadGenerator } from '../support/load-generator.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';

const SCRIPT = join(import.meta.dirname, '..', 'support', 'checkpointer.js');

let services: Services;
let file: string;
let checkpointer: ChildProcess;
beforeEach(async () => {
  services = await createServices({ NODE_ENV: 'production' });
  file = join(services.directory, 'data', `${NAME}.sqlite`);
});
afterEach(() => services.close());

async function startCheckpointer(): Promise<void> {
  checkpointer = spawn(process.execPath, [SCRIPT, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(checkpointer.stdout!, 'data');
}

async function killCheckpointer(): Promise<void> {
  // Otherwise it has failed.
  expect(checkpointer.exitCode).toBeNull();
  checkpointer.kill('SIGKILL');
  await once(checkpointer, 'exit');
}

describe('a process that reads and checkpoints the SQLite file as Litestream does', () => {
  it('fails no request and loses no acknowledged create across SIGKILLs of both (durability)', async () => {
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    for (let round = 0; round < 6; round++) {
      const { service, url } = await services.serve();
      load.start(url, { writers: 12, readers: 2 });
      await startCheckpointer();
      await load.waitForSuccesses(20);
      await delay(Math.random() * 300);
      const killFirst = round % 2 === 0;
      if (killFirst) await killCheckpointer();
      await load.waitForSuccesses(5);
      load.allowDisconnects(url);
      service.kill('SIGKILL');
      await service.exited;
      if (!killFirst) await killCheckpointer();
    }
    const { categories } = await services.serve();
    await load.stop();
    load.verifyFinalState(await categories.getAll());
    expect(load.violations).toEqual([]);
    const database = new Database(file, { readonly: true });
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
    database.close();
  });

  it('may hang in its read transaction: the WAL grows, and create requests succeed', async () => {
    const { categories } = await services.serve();
    const reader = new Database(file, { readonly: true });
    reader.exec('BEGIN; SELECT count(*) FROM "categories"');
    // Few at once, so that each is in time on a busy machine.
    for (let count = 0; count < 60; count++) {
      const batch = Array.from({ length: 20 }, () => categories.create('dog', 'd'.repeat(1_000)));
      for (const { status } of await Promise.all(batch)) expect(status).toBe(201);
    }
    // Otherwise SQLite would start it again after 1,000 pages.
    expect(statSync(`${file}-wal`).size).toBeGreaterThan(1_500 * 4_096);
    reader.close();
  });
});
