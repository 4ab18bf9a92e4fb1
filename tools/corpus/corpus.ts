/**
 * `npm run corpus`: measures the generator on public contracts, and writes tools/generator/CORPUS.md. With `--drive 30`, it
 * tests the modules of contracts that are drawn with a seed instead; with `--check`, it compares 60 of them with a list.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { format } from 'prettier';
import {
  download,
  draw,
  listDocuments,
  MAX_SIZE,
  measure,
  type Measurement,
  PACKAGE,
  type PublicDocument,
} from './documents.js';
import { compareList, getProviders, listImplemented } from './implemented.js';

const OUTPUT = 'tools/generator/CORPUS.md';
const LIST = 'tools/corpus/implemented.txt';

/** Documents that are too large for the others' limit, and well known. */
const LARGE = /^(stripe\.com|digitalocean\.com|linode\.com|github\.com)$/;

const MAX_REASONS = 25;

const SHARES = ['Right', 'Without parameters', 'Values to decide'];

interface Measured extends PublicDocument {
  readonly result: Measurement | string;
}

const {
  drive,
  seed = 'seed-2',
  check = false,
  update = false,
} = parseArgs({
  options: {
    drive: { type: 'string' },
    seed: { type: 'string' },
    check: { type: 'boolean' },
    update: { type: 'boolean' },
  },
}).values;
if (drive !== undefined) {
  const args = ['run', '--silent', 'test:generator', '--', 'corpus/test/slow/drive'];
  const drawn = await draw(download('build/corpus'), Number(drive), seed);
  const paths = drawn.map(({ path }) => path).join(' ');
  const env = { ...process.env, DRIVE_SEED: seed, DRIVE_DOCUMENTS: paths };
  const options = [...args, '--selectProjects', 'postgres'];
  const { status } = spawnSync('npm', options, { env, stdio: 'inherit' });
  console.log(readFileSync(`build/corpus/drive-${seed}.txt`, 'utf8'));
  process.exit(status ?? 1);
}

const documents = listDocuments(download('build/corpus'));
if (check || update) {
  const list = readFileSync(LIST, 'utf8');
  const actual: string[] = [];
  for (const provider of getProviders(list))
    actual.push(...(await listImplemented(documents.find((each) => each.provider === provider)!)));
  const { problems, merged } = compareList(list, actual);
  if (update) writeFileSync(LIST, merged);
  else for (const problem of problems) console.log(problem);
  console.log(`${LIST}: ${actual.length} lines, ${problems.length} problems`);
  process.exit(problems.length > 0 && !update ? 1 : 0);
}

const measured: Measured[] = [];
const crashes: string[] = [];
for (const document of documents) {
  if (document.size > MAX_SIZE && !LARGE.test(document.provider)) continue;
  try {
    measured.push({ ...document, result: await measure(document.path) });
  } catch (error) {
    crashes.push(`${document.provider}: ${String(error).slice(0, 200)}`);
  }
  process.stdout.write('.');
}
console.log();
const small = measured.filter(({ size }) => size <= MAX_SIZE);
const text = [
  '# What the generator makes of public contracts',
  `\`npm run corpus\` measures it on ${PACKAGE}: one document of at most ${MAX_SIZE / 1000} KB of each provider, the first by its path.`,
  'An operation is *shaped like one of a resource* if its collection has a POST and a path of one item. *Right* ones do what the contract says; others work without optional parameters (a request that sends one gets 501), or with values that a team has to decide. All others are stubs that return 501.',
  'Rules are tuned on providers whose name has a SHA-256 that starts with 0 to 7; the others, and netboxdemo.com, whose document is almost that of netbox.dev, are for acceptance alone.',
  table(
    ['', 'Documents', 'Refused', 'Operations', 'Shaped', ...SHARES, 'Mean by provider', 'Median'],
    [
      ['Tuned', ...toRow(small.filter((each) => each.isTuned))],
      ['Acceptance', ...toRow(small.filter((each) => !each.isTuned))],
      ['All', ...toRow(small)],
    ],
  ),
  `Crashes: ${crashes.length}.`,
  ...crashes,
  '## Large documents',
  table(
    ['', 'Operations', 'Shaped', ...SHARES],
    measured.filter(({ size }) => size > MAX_SIZE).map(toLargeRow),
  ),
  '## Why operations are stubs',
  table(['Reason', 'Shaped operations', 'Share'], toReasons(small)),
].join('\n\n');
writeFileSync(OUTPUT, await format(text, { parser: 'markdown' }));
console.log(`Wrote ${OUTPUT}.`);

function toMeasurements(list: readonly Measured[]): Measurement[] {
  return list.flatMap(({ result }) => (typeof result === 'string' ? [] : result));
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

function toShares(results: readonly Measurement[]): string[] {
  const shaped = sum(results.map((each) => each.shaped));
  return (['right', 'without', 'undecided'] as const).map((name) =>
    percent(sum(results.map((each) => each[name])) / Math.max(shaped, 1)),
  );
}

function toRow(list: readonly Measured[]): string[] {
  const results = toMeasurements(list);
  const shares = results
    .filter(({ shaped }) => shaped > 0)
    .map(({ right, without, shaped }) => (right + without) / shaped)
    .toSorted((a, b) => a - b);
  return [
    String(list.length),
    String(list.length - results.length),
    String(sum(results.map(({ operations }) => operations))),
    String(sum(results.map(({ shaped }) => shaped))),
    ...toShares(results),
    percent(sum(shares) / Math.max(shares.length, 1)),
    percent(shares[Math.floor(shares.length / 2)] ?? 0),
  ];
}

function toLargeRow({ provider, result }: Measured): string[] {
  if (typeof result === 'string') return [provider, result];
  const { operations, shaped } = result;
  return [provider, String(operations), String(shaped)].concat(toShares([result]));
}

function toReasons(list: readonly Measured[]): string[][] {
  const results = toMeasurements(list);
  const shaped = sum(results.map((each) => each.shaped));
  const kinds = Map.groupBy(
    results.flatMap(({ reasons }) => reasons),
    (reason) => reason,
  );
  return [...kinds]
    .map(([reason, all]) => [reason, all.length] as const)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, MAX_REASONS)
    .map(([reason, count]) => [reason, String(count), percent(count / shaped)]);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
