/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need prometheus */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { MetricsServer } from '../../../src/platform/metrics/metrics-server.js';
import { startApp, type TestApp } from '../support/app.js';
import { DATABASE } from '../support/databases.js';
import { sendRequest } from '../support/http-client.js';
import { findFreePort } from '../support/postgres.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { readBlocks } from '../support/snippets.js';
import { waitFor } from '../support/wait.js';

/** Debian's package `prometheus` has both. */
const monitored = requires(
  'prometheus and promtool',
  ['prometheus', 'promtool'].every((program) => commandSucceeds(program)),
);

interface Rule {
  readonly name: string;
  readonly type: 'alerting' | 'recording';
  readonly query: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Dashboard {
  readonly panels: readonly { readonly type: string; readonly targets: { expr: string }[] }[];
}

let directory: string;
let app: TestApp;
let prometheus: ChildProcess;
/** The address of the API of Prometheus. */
let api: string;

/** Starts Prometheus with the rules. It reads the metrics of a new service every second. */
async function startPrometheus(): Promise<void> {
  directory = await mkdtemp(join(tmpdir(), 'petstore-prometheus-'));
  app = await startApp({ config: { metricsPort: 0 } });
  const { host } = new URL(app.app.get(MetricsServer).url!);
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [resolve('deploy/alerts.yml')],
    scrape_configs: [{ job_name: 'api', static_configs: [{ targets: [host] }] }],
  };
  const file = join(directory, 'prometheus.yml');
  await writeFile(file, JSON.stringify(config));
  const address = `127.0.0.1:${await findFreePort()}`;
  const options = {
    'config.file': file,
    'storage.tsdb.path': join(directory, 'data'),
    'web.listen-address': address,
  };
  const flags = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  prometheus = spawn('prometheus', flags, { stdio: 'ignore' });
  api = `http://${address}/api/v1`;
  await waitFor(
    () => query(`service_build_info`).catch(() => []),
    ({ length }) => length > 0,
  );
}

async function get<Data>(path: string): Promise<Data> {
  const { status, text } = await sendRequest(`${api}/${path}`);
  if (status !== 200) throw new Error(text);
  return (JSON.parse(text) as { data: Data }).data;
}

const query = async (expression: string): Promise<unknown[]> =>
  (await get<{ result: unknown[] }>(`query?query=${encodeURIComponent(expression)}`)).result;

/** The metrics of the other database. */
const INAPPLICABLE =
  DATABASE === 'postgres' ? /_database_(\w+_)?size_|_disk_/ : /db_client_|_dead_revisions/;

/** Waits until each expression has a result: on a busy machine a scrape may fail. */
async function waitForResults(expressions: readonly string[]): Promise<void> {
  const applicable = expressions.filter((expression) => !INAPPLICABLE.test(expression));
  const findEmpty = async (): Promise<string[]> => {
    const results = await Promise.all(applicable.map(query));
    return applicable.filter((_, index) => results[index]!.length === 0);
  };
  expect(await waitFor(findEmpty, ({ length }) => length === 0)).toEqual([]);
}

/** Returns the selectors of an expression, such as `up{job="api"}`. */
const getSelectors = (expression: string): string[] =>
  expression
    .replaceAll(/by \([^)]*\)/g, '')
    .match(
      new RegExp(
        `\\b(?:up|(?:service|http|db_client|nodejs|process)_[a-z_]+)\\b(?:\\{[^}]*\\})?`,
        'g',
      ),
    ) ?? [];

const read = (file: string): string => readFileSync(file, 'utf8');

monitored.describe('deploy/alerts.yml', () => {
  let rules: readonly Rule[];
  let alerts: readonly Rule[];
  beforeAll(async () => {
    await startPrometheus();
    const { groups } = await get<{ groups: { rules: Rule[] }[] }>('rules');
    rules = groups.flatMap((group) => group.rules);
    alerts = rules.filter(({ type }) => type === 'alerting');
  });
  afterAll(async () => {
    prometheus.kill();
    await once(prometheus, 'exit');
    await app.stop();
    await rm(directory, { recursive: true });
  });

  it.each([
    ['check', 'alerts.yml'],
    ['test', 'alerts.test.yml'],
  ])('passes promtool %s rules', (command, file) => {
    const check = spawnSync('promtool', [command, 'rules', join('deploy', file)], {
      encoding: 'utf8',
    });
    expect(check).toMatchObject({ status: 0, stderr: '' });
  });

  it('selects only series that a service has before its first request', async () => {
    const selectors = rules.flatMap((rule) => getSelectors(rule.query));
    expect(selectors.length).toBeGreaterThan(alerts.length);
    await waitForResults(selectors);
  });

  it('tests each alert, which a section of the runbook explains', () => {
    const runbook = read('docs/runbook.md');
    const tests = read('deploy/alerts.test.yml');
    for (const { name, annotations } of alerts) {
      expect(annotations['runbook_url']).toBe(`docs/runbook.md#${name.toLowerCase()}`);
      expect(runbook).toContain(`\n### ${name}\n`);
      expect(tests).toContain(`- alertname: ${name}\n`);
    }
  });

  it('links a runbook whose commands are valid, and whose queries name metrics of the service', async () => {
    const blocks = (await readBlocks('docs/runbook.md')).filter(
      ({ language }) => language === 'sh',
    );
    expect(blocks.length).toBeGreaterThan(alerts.length);
    for (const { code } of blocks) {
      const { stderr } = spawnSync('bash', ['-n', '-c', code], { encoding: 'utf8' });
      expect([code, stderr]).toEqual([code, '']);
    }
    const queries = blocks.flatMap(({ code }) =>
      Array.from(code.matchAll(/^promtool query instant \S+ '(.*)'$/gm), ([, text]) => text!),
    );
    expect(queries.length).toBeGreaterThan(10);
    const { text: metrics } = await sendRequest(app.app.get(MetricsServer).url!);
    const declared = Array.from(metrics.matchAll(/^# TYPE (\S+) (\w+)$/gm), ([, name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    );
    const known = new Set([...declared.flat(), ...rules.map(({ name }) => name)]);
    for (const expression of queries) {
      // Prometheus rejects what it cannot parse.
      await query(expression);
      const names =
        expression.match(/\b(?:service|http|nodejs|process|db_client)[_:][\w:]+(?=[[{>])/g) ?? [];
      expect([expression, names.length]).not.toEqual([expression, 0]);
      for (const name of names.filter((each) => !INAPPLICABLE.test(each)))
        expect([expression, known.has(name)]).toEqual([expression, true]);
    }
  });

  it('comes with a Grafana dashboard, each of whose queries finds series of the service', async () => {
    const { panels } = JSON.parse(read('deploy/grafana-dashboard.json')) as Dashboard;
    const expressions = panels.flatMap(({ targets }) =>
      targets.map(({ expr }) =>
        expr.replaceAll('$instance', '.+').replaceAll('$__rate_interval', '1m'),
      ),
    );
    expect(new Set(panels.map(({ type }) => type))).toEqual(new Set(['stat', 'timeseries']));
    expect((await app.categories.create('a')).status).toBe(201);
    expect((await app.categories.list()).status).toBe(200);
    await waitForResults(expressions);
  });
});
