/** The command `npm run bench`, which CONTRIBUTING.md describes. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { measureSync, stopPostgres } from './databases.js';
import { measure, type Settings } from './measure.js';
import * as report from './report.js';
import { type Row, ROWS, type TargetName, TARGETS, type Threshold } from './rows.js';
import { moveToLoadCore, ROOT } from './servers.js';

// After 2 s of load V8 still compiles the service, after 7 s it does not.
const FULL: Settings = { warmUp: 7, load: 3, idle: 5 };
const QUICK: Settings = { warmUp: 2, load: 1, idle: 1 };

async function main(): Promise<void> {
  const BOOLEAN = { type: 'boolean', default: false } as const;
  const options = { quick: BOOLEAN, only: { type: 'string' } } as const;
  const { quick, only } = parseArgs({ options }).values;
  const wrk = findVersion('wrk', '-v');
  if (wrk === undefined) throw new Error('wrk is not installed (Debian: apt-get install wrk)');
  const h2load = findVersion('h2load', '--version') ?? 'no h2load (Debian: nghttp2-client)';
  moveToLoadCore(process.pid);
  const settings = quick ? QUICK : FULL;
  const environment = [
    ['Date', `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`],
    ['Machine', `${cpus()[0]!.model.trim()}, ${cpus().length} cores, Linux ${release()}`],
    ['Software', `Node ${process.version}, ${wrk}, ${h2load}`],
    ['Cores', 'server on the first, load generator and PostgreSQL on the last'],
    ['Load', `${settings.load} s after ${settings.warmUp} s of warm-up`],
    ['Disk', `${measureSync().toFixed(2)} ms for a synced write of 4 KiB`],
  ];
  const results: report.Result[] = [];
  const otherWork: number[] = [];
  for (const row of selectRows(quick, only)) {
    otherWork.push(await measureOtherWork());
    results.push(await measureRow(row, settings));
    console.log(`\n${report.renderRow(results.at(-1)!)}`);
  }
  const shares = otherWork.toSorted((a, b) => a - b).map((share) => `${share.toFixed(0)} %`);
  environment.push([
    'Other work',
    `${shares[shares.length >> 1]} of the time of the cores in the second before a row, at most ${shares.at(-1)}`,
  ]);
  environment.push(['Duration', `${(performance.now() / 60_000).toFixed(1)} minutes`]);
  console.log(`\n${report.renderThresholds(results)}\n`);
  for (const line of environment) console.log(line.join(': '));
  if (quick || only !== undefined) return;
  const tried = readFileSync(join(ROOT, 'tools/bench/tried.md'), 'utf8');
  const text = `${report.renderReport(results, environment)}\n${tried}`;
  writeFileSync(join(ROOT, 'tools/bench/RESULTS.md'), text);
  quote('README.md', report.summarize(results));
  quote('docs/runbook.md', `\n${report.renderCapacity(text)}\n`);
}

/** Replaces what a page quotes of the report. */
function quote(page: string, text: string): void {
  const path = join(ROOT, page);
  const quoted = /(?<=<!-- npm run bench -->\n)[^]*(?=\n<!-- \/npm run bench -->)/;
  writeFileSync(
    path,
    readFileSync(path, 'utf8').replace(quoted, () => text),
  );
}

function findVersion(program: string, option: string): string | undefined {
  return spawnSync(program, [option], { encoding: 'utf8' }).stdout?.split(/ \[|\n/)[0];
}

const getIdleTime = (): number => cpus().reduce((sum, { times }) => sum + times.idle, 0);

/** Returns the percentage of a second in which the cores were not idle, which includes what other virtual machines took. */
async function measureOtherWork(): Promise<number> {
  const [idle, startedAt] = [getIdleTime(), performance.now()];
  await sleep(1_000);
  const possible = (performance.now() - startedAt) * cpus().length;
  return Math.max(0, 100 * (1 - (getIdleTime() - idle) / possible));
}

function selectRows(quick: boolean, only: string | undefined): readonly Row[] {
  const rows = ROWS.filter((row) => (only ? row.title === only : row.quick || !quick));
  if (rows.length > 0) return rows;
  throw new Error(`the titles are:\n${ROWS.map(({ title }) => title).join('\n')}`);
}

const getCompared = (thresholds: readonly Threshold[]): Set<TargetName> =>
  new Set(thresholds.flatMap(({ of = 'service', against }) => [of, against]));

/** Measures a row in interleaved rounds: three, five if a ratio is within a tenth of its threshold, or a quick one. */
async function measureRow(row: Row, settings: Settings): Promise<report.Result> {
  const result: report.Result = { row, rounds: new Map(), failures: new Map() };
  const measureRound = async (targets: Iterable<TargetName>): Promise<void> => {
    for (const target of targets) {
      if (result.failures.has(target)) continue;
      try {
        const measurement = await measure(TARGETS[target], row, settings);
        result.rounds.set(target, [...(result.rounds.get(target) ?? []), measurement]);
      } catch (error) {
        console.error(`${row.title}, ${target}:`, error);
        result.failures.set(target, (error as Error).message.split('\n')[0]!);
      }
    }
  };
  const compared = getCompared(row.thresholds);
  if (settings === QUICK) {
    await measureRound(compared.size > 0 ? compared : row.targets);
    return result;
  }
  for (let round = 1; round <= 3; round++) await measureRound(row.targets);
  const near = row.thresholds.filter((threshold) => report.isNear(result, threshold));
  for (let round = 4; round <= 5; round++) await measureRound(getCompared(near));
  return result;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  await main();
  await stopPostgres();
} catch (error) {
  console.error(`Benchmark failed: ${(error as Error).message}`);
  // Setting exitCode is not enough: a running PostgreSQL keeps the process alive.
  process.exit(1);
}
