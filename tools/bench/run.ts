/** The command `npm run bench`, which CONTRIBUTING.md describes. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { stopPostgres } from './databases.js';
import { measureStart } from './measure.js';
import { renderReport, renderSummary, renderTable, type Start } from './report.js';
import { compareWith, ROOT, type Row, ROWS } from './rows.js';

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
  const isSelected = ({ title, group }: Row): boolean =>
    only.some((name) => group === name || title.startsWith(name));
  const selected = ROWS.filter((row) => isSelected(row) && (row.quick ?? !quick));
  if (selected.length === 0)
    throw new Error(`the titles are:\n${ROWS.map(({ title }) => title).join('\n')}`);
  if (against !== undefined) spawnSync('npm', ['run', 'build'], { cwd: against, stdio: 'inherit' });
  const rows = against === undefined ? selected : compareWith(resolve(against), selected);
  const results = await measureAll(rows, publish ? 2 : 1, raw);
  console.log(`\n${renderTable(rows, results)}`);
  if (!publish) return;
  const machine = `${cpus()[0]!.model.trim()}, ${cpus().length} cores, Linux ${release()}`;
  const report = renderReport(results, `${machine}, Node ${process.version}`);
  writeFileSync(join(ROOT, 'tools/bench/RESULTS.md'), report);
  const readme = join(ROOT, 'README.md');
  const quoted = /(?<=<!-- npm run bench -->\n)[^]*(?=\n<!-- \/npm run bench -->)/;
  const page = readFileSync(readme, 'utf8').replace(quoted, () => renderSummary(results));
  writeFileSync(readme, page);
}

/** Measures the rows in each start of each run. A start in `raw`, a file with a line of JSON for each, is not repeated. */
async function measureAll(rows: readonly Row[], runs: number, raw?: string): Promise<Start[]> {
  const lines = raw !== undefined && existsSync(raw) ? readFileSync(raw, 'utf8') : '';
  const results = lines.match(/.+/g)?.map((line) => JSON.parse(line) as Start) ?? [];
  const groups = Map.groupBy(rows, ({ group }) => group);
  for (let run = 0; run < runs; run++)
    for (let number = 0; number < STARTS; number++)
      for (const [group, members] of groups) {
        const found = results.filter((start) => start.run === run && start.number === number);
        const missing = members.filter(({ title }) => !found.some(({ slices }) => title in slices));
        if (missing.length === 0) continue;
        const date = new Date();
        const slices = await measureStart(missing, number % 2 === 1);
        const seconds = (Date.now() - date.getTime()) / 1000;
        const start = { run, number, date: date.toISOString(), seconds, slices };
        results.push(start);
        if (raw !== undefined) appendFileSync(raw, `${JSON.stringify(start)}\n`);
        console.error(`run ${run + 1}, start ${number + 1}, ${group}: ${seconds.toFixed(0)} s`);
      }
  return results;
}

// On exit, handlers end the servers and delete their files; a signal alone would not run them.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

await main();
await stopPostgres();
