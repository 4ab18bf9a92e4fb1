import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Deployment, StatefulSet } from 'kubernetes-types/apps/v1.js';
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { ConfigMap, Container, Service } from 'kubernetes-types/core/v1.js';
import type { NetworkPolicy } from 'kubernetes-types/networking/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../../src/platform/config/config.js';
import { startApp, type TestApp } from '../../../test/platform/support/app.js';
import { commandSucceeds, requires } from '../../../test/platform/support/requirements.js';
import { PRODUCT } from '../../../src/product.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const execute = promisify(execFile);

const kubectl = requires('kubectl', commandSucceeds('kubectl', ['kustomize', '--help']));

/** The modules of `kubernetes-types` that declare the kinds of each `apiVersion`. */
const MODULES: Readonly<Record<string, string>> = {
  v1: 'core/v1',
  'apps/v1': 'apps/v1',
  'batch/v1': 'batch/v1',
  'networking.k8s.io/v1': 'networking/v1',
  'policy/v1': 'policy/v1',
};

type Resource = (
  ConfigMap | Deployment | StatefulSet | Job | NetworkPolicy | Service | PodDisruptionBudget
) & {
  readonly apiVersion: string;
  readonly kind: string;
};

/** Returns what `kubectl apply -k` would send, by kind. */
async function render(overlay: string): Promise<Map<string, Resource>> {
  const { stdout } = await execute('kubectl', ['kustomize', join('deploy/kubernetes', overlay)], {
    cwd: ROOT,
  });
  const resources = parseAllDocuments(stdout).map((document) => document.toJS() as Resource);
  return new Map(resources.map((resource) => [resource.kind, resource]));
}

/** Compiles the resources as literals of their types, so that a misspelled property is an error, too. */
async function getTypeErrors(resources: Iterable<Resource>): Promise<string> {
  const directory = await mkdtemp(join(process.env['TEST_BUILD']!, 'kubernetes-'));
  const lines = Array.from(resources, (resource, index) => {
    const type = `import('kubernetes-types/${MODULES[resource.apiVersion]}').${resource.kind}`;
    return `export const resource${index}: ${type} = ${JSON.stringify(resource)};`;
  });
  await writeFile(join(directory, 'resources.ts'), lines.join('\n'));
  const compiler = join(ROOT, 'node_modules/typescript-7/bin/tsc');
  const options = ['--noEmit', '--strict', '--ignoreConfig', '--types', ''];
  const args = [compiler, ...options, join(directory, 'resources.ts')];
  const { stdout } = await execute(process.execPath, args, { cwd: directory }).catch(
    (error: { stdout: string }) => error,
  );
  await rm(directory, { recursive: true });
  return stdout;
}

/** What Prometheus Operator reads (https://prometheus-operator.dev/docs/api-reference/api). */
interface PodMonitor {
  readonly spec: {
    readonly jobLabel: string;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly podMetricsEndpoints: readonly { readonly port: string }[];
  };
}

const getContainer = (workload: Deployment | StatefulSet | Job): Container =>
  workload.spec!.template.spec!.containers[0]!;

/** The configuration of the service in a pod, whose secret contains `DATABASE_URL`, and whose other source is a ConfigMap. */
function loadPodConfig(
  container: Container,
  resources: ReadonlyMap<string, Resource>,
): ReturnType<typeof loadConfig> {
  const { data, metadata } = resources.get('ConfigMap') as ConfigMap;
  expect(container.envFrom![0]).toEqual({ configMapRef: { name: metadata!.name } });
  const env = Object.fromEntries(container.env!.map(({ name, value }) => [name, value]));
  return loadConfig(PRODUCT, {
    DATABASE_URL: 'postgres://petstore:secret@db/petstore',
    ...data,
    ...env,
  });
}

kubectl.describe('deploy/kubernetes', () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp();
  });
  afterAll(() => app.stop());

  it.each([
    [
      'base',
      ['ConfigMap', 'Deployment', 'Job', 'NetworkPolicy', 'PodDisruptionBudget', 'Service'],
      'Deployment',
    ],
    ['sqlite', ['ConfigMap', 'NetworkPolicy', 'Service', 'StatefulSet'], 'StatefulSet'],
  ])('%s has valid resources that fit the service', async (overlay, kinds, kind) => {
    const resources = await render(overlay);
    expect([...resources.keys()].toSorted()).toEqual(kinds);
    expect(await getTypeErrors(resources.values())).toBe('');

    const workload = resources.get(kind) as Deployment | StatefulSet;
    const { spec, metadata } = workload.spec!.template;
    const container = getContainer(workload);
    const config = loadPodConfig(container, resources);
    expect(config).toMatchObject({ publicBaseUrl: expect.any(String) as string, trustProxy: 1 });
    expect(container.ports).toEqual([
      { name: 'http', containerPort: config.port },
      { name: 'metrics', containerPort: config.metricsPort },
    ]);
    for (const probe of [container.livenessProbe!, container.readinessProbe!]) {
      expect(probe.httpGet!.port).toBe('http');
      expect((await app.send('GET', probe.httpGet!.path!, '')).status).toBe(200);
    }
    expect(spec!.terminationGracePeriodSeconds! * 1000).toBeGreaterThanOrEqual(
      config.shutdownDelay + 10_000,
    );
    const service = resources.get('Service') as Service;
    expect(service.spec!.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
    const policy = resources.get('NetworkPolicy') as NetworkPolicy;
    for (const labels of [
      service.spec!.selector,
      workload.spec!.selector.matchLabels,
      policy.spec!.podSelector.matchLabels,
    ])
      expect(metadata!.labels).toEqual(labels);
    // Each port is for one namespace, and none for all.
    expect(
      policy.spec!.ingress!.map(({ from, ports }) => [
        from!.flatMap(({ namespaceSelector }) => Object.values(namespaceSelector!.matchLabels!)),
        ports!.map(({ port }) => port),
      ]),
    ).toEqual([
      [['ingress-nginx'], ['http']],
      [['monitoring'], ['metrics']],
    ]);
  });

  it('is scraped by the PodMonitor of docs/install.md, as the job of the alerts', async () => {
    const page = await readFile(join(ROOT, 'docs/install.md'), 'utf8');
    const [, block] = /```yaml\n([^`]*PodMonitor[^`]*)```/.exec(page)!;
    const { spec } = parse(block!) as PodMonitor;
    const deployment = (await render('base')).get('Deployment') as Deployment;
    const { labels } = deployment.spec!.template.metadata!;
    expect(labels).toEqual(spec.selector.matchLabels);
    const ports = getContainer(deployment).ports!.map(({ name }) => name);
    expect(ports).toContain(spec.podMetricsEndpoints[0]!.port);
    const alerts = await readFile(join(ROOT, 'deploy/alerts.yml'), 'utf8');
    expect(alerts).toContain(`up{job=~"${labels![spec.jobLabel]}.*"}`);
  });

  it('migrates with a command of the service, in a pod that gets no requests', async () => {
    const resources = await render('base');
    const job = resources.get('Job') as Job;
    const { command, image, envFrom } = getContainer(job);
    expect(command).toEqual(['node', 'dist/cli/migrations.js', 'run']);
    expect(existsSync(join(ROOT, 'src/cli/migrations.ts'))).toBe(true);
    expect(job.spec!.template.metadata?.labels).toBeUndefined();
    const container = getContainer(resources.get('Deployment') as Deployment);
    expect(image).toBe(container.image);
    expect(container.envFrom).toEqual([expect.anything(), ...envFrom!]);
    expect(loadPodConfig(container, resources).migrations).toBe('off');
  });

  it('reports a misspelled property', async () => {
    const deployment = (await render('base')).get('Deployment')!;
    Object.assign(getContainer(deployment as Deployment), { livenesProbe: {} });
    expect(await getTypeErrors([deployment])).toMatch(/livenesProbe.* does not exist/);
  });
});
