/** The command `npm run bench`, which CONTRIBUTING.md describes. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { compileShim, measureSync, stopPostgres } from './databases.js';
import { measureStart } from './measure.js';
import * as report from './report.js';
import { compareWith, type Row, ROWS } from './rows.js';
import { moveToLoadCore, ROOT } from './servers.js';

async function main(): Promise<void> {
  const options = {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    against: { type: 'string' },
    raw: { type: 'string' },
    starts: { type: 'string', default: '8' },
  } as const;
  const { quick, only, against, raw, starts } = parseArgs({ options }).values;
  const wrk = spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout?.split(/ \[|\n/)[0];
  if (wrk === undefined) throw new Error('wrk is not installed (Debian: apt-get install wrk)');
  compileShim();
  moveToLoadCore(process.pid);
  const isFull = !quick && only === '' && against === undefined;
  const selected = ROWS.filter((row) => row.title.startsWith(only) && (row.quick ?? !quick));
  if (selected.length === 0)
    throw new Error(`the titles are:\n${ROWS.map(({ title }) => title).join('\n')}`);
  const rows = against === undefined ? selected : compareWith(build(against), selected);
  const results = await measureAll(rows, isFull ? 2 : 1, Number(starts), raw);
  if (!isFull) {
    console.log(`\n${report.renderTables(rows, results)}`);
    return;
  }
  const machine = `${cpus()[0]!.model.trim()}, ${cpus().length} cores, Linux ${release()}, Node ${process.version}, ${wrk}`;
  const environment = `${machine}; ${measureSync().toFixed(2)} ms for a synced write of 4 KiB on the disk`;
  const text = report.renderReport(rows, results, environment);
  writeFileSync(join(ROOT, 'tools/bench/RESULTS.md'), text);
  const readme = join(ROOT, 'README.md');
  const quoted = /(?<=<!-- npm run bench -->\n)[^]*(?=\n<!-- \/npm run bench -->)/;
  const summary = report.renderSummary(rows, results);
  writeFileSync(
    readme,
    readFileSync(readme, 'utf8').replace(quoted, () => summary),
  );
}

/** Builds another checkout of this service. @returns the path of its entry point */
function build(folder: string): string {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: folder,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`npm run build failed in ${folder}`);
  return resolve(folder, 'dist/main.js');
}

/**
 * Measures all starts of all runs.
 *
 * @param raw file with a line of JSON for each start: those that it has are not measured again
 */
async function measureAll(
  rows: readonly Row[],
  runs: number,
  starts: number,
  raw: string | undefined,
): Promise<report.Start[]> {
  const lines = raw !== undefined && existsSync(raw) ? readFileSync(raw, 'utf8') : '';
  const results = lines
    .split('\n')
    .flatMap((line) => (line ? [JSON.parse(line) as report.Start] : []));
  const storages = [...new Set(rows.map(({ storage }) => storage))];
  for (let run = 0; run < runs; run++)
    for (let number = 0; number < starts; number++)
      for (const storage of storages) {
        const isSame = (start: report.Start): boolean =>
          start.run === run && start.number === number && start.storage === storage;
        if (results.some(isSame)) continue;
        const date = new Date().toISOString();
        const startedAt = performance.now();
        const otherWork = await measureOtherWork();
        const own = rows.filter((row) => row.storage === storage);
        const slices = await measureStart(own, number % 2 === 1);
        const seconds = (performance.now() - startedAt) / 1000;
        const start = { run, number, storage, date, seconds, otherWork, slices };
        results.push(start);
        if (raw !== undefined) appendFileSync(raw, `${JSON.stringify(start)}\n`);
        console.error(`run ${run + 1}, start ${number + 1}, ${storage}: ${seconds.toFixed(0)} s`);
      }
  return results;
}

const getIdleTime = (): number => cpus().reduce((sum, { times }) => sum + times.idle, 0);

/** Returns the percentage of 0.3 s in which the cores were not idle, which includes what other virtual machines took. */
async function measureOtherWork(): Promise<number> {
  const [idle, startedAt] = [getIdleTime(), performance.now()];
  await sleep(300);
  const possible = (performance.now() - startedAt) * cpus().length;
  return Math.max(0, 100 * (1 - (getIdleTime() - idle) / possible));
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  await main();
  await stopPostgres();
} catch (error) {
  console.error('Benchmark failed:', error);
  // Setting exitCode is not enough: a running PostgreSQL keeps the process alive.
  process.exit(1);
}
