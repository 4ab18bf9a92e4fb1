/** The command `npm run bench`, which CONTRIBUTING.md describes. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { compileShim, stopPostgres } from './databases.js';
import { measureStart } from './measure.js';
import { renderReport, renderSummary, renderTable, type Start } from './report.js';
import { compareWith, type Row, ROWS } from './rows.js';
import { leaveFirstCore, ROOT } from './servers.js';

const STARTS = 8;

async function main(): Promise<void> {
  const options = {
    publish: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    against: { type: 'string' },
    raw: { type: 'string' },
  } as const;
  const { publish, quick, only = [''], against, raw } = parseArgs({ options }).values;
  compileShim();
  leaveFirstCore();
  const isSelected = ({ title, group }: Row): boolean =>
    only.some((name) => group === name || title.startsWith(name));
  const selected = ROWS.filter((row) => isSelected(row) && (row.quick ?? !quick));
  if (selected.length === 0)
    throw new Error(`the titles are:\n${ROWS.map(({ title }) => title).join('\n')}`);
  if (against !== undefined) spawnSync('npm', ['run', 'build'], { cwd: against, stdio: 'inherit' });
  const rows = against === undefined ? selected : compareWith(resolve(against), selected);
  const results = await measureAll(rows, publish ? 2 : 1, raw);
  if (publish) writeResults(results);
  else console.log(`\n${renderTable(rows, results)}`);
}

/** Writes RESULTS.md, and the paragraph of the README. */
function writeResults(results: readonly Start[]): void {
  const machine = `${cpus()[0]!.model.trim()}, ${cpus().length} cores, Linux ${release()}`;
  const text = renderReport(results, `${machine}, Node ${process.version}`);
  writeFileSync(join(ROOT, 'tools/bench/RESULTS.md'), text);
  const readme = join(ROOT, 'README.md');
  const quoted = /(?<=<!-- npm run bench -->\n)[^]*(?=\n<!-- \/npm run bench -->)/;
  const page = readFileSync(readme, 'utf8').replace(quoted, () => renderSummary(results));
  writeFileSync(readme, page);
}

/**
 * Measures all starts of all runs.
 *
 * @param raw file with a line of JSON for each start: the rows that it has are not measured again
 */
async function measureAll(rows: readonly Row[], runs: number, raw?: string): Promise<Start[]> {
  const lines = raw !== undefined && existsSync(raw) ? readFileSync(raw, 'utf8') : '';
  const results = lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Start);
  const groups = [...new Set(rows.map(({ group }) => group))];
  for (let run = 0; run < runs; run++)
    for (let number = 0; number < STARTS; number++)
      for (const group of groups) {
        const found = results.filter((start) => start.run === run && start.number === number);
        const isFound = ({ title }: Row): boolean => found.some(({ slices }) => title in slices);
        const own = rows.filter((row) => row.group === group && !isFound(row));
        if (own.length === 0) continue;
        const date = new Date().toISOString();
        const startedAt = performance.now();
        const slices = await measureStart(own, number % 2 === 1);
        const seconds = (performance.now() - startedAt) / 1000;
        const start = { run, number, date, seconds, slices };
        results.push(start);
        if (raw !== undefined) appendFileSync(raw, `${JSON.stringify(start)}\n`);
        console.error(`run ${run + 1}, start ${number + 1}, ${group}: ${seconds.toFixed(0)} s`);
      }
  return results;
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
