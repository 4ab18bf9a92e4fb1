import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { loadConfig } from '../../../src/platform/config/config.js';
import { useApp } from '../support/app.js';
import { startProgram } from '../support/cli.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { PRODUCT } from '../../../src/product.js';

const kubectl = requires('kubectl', commandSucceeds('kubectl', ['kustomize', '--help']));

// oxlint-disable-next-line typescript/no-explicit-any -- objects of many kinds, of which the tests name properties
type Resource = any;

/** Returns the resources that `kubectl apply -k` would send, by kind. */
async function render(overlay: string): Promise<Map<string, Resource>> {
  const args = ['kustomize', join('deploy/kubernetes', overlay)];
  const { stdout } = await startProgram('kubectl', args).result;
  const resources = loadAll(stdout) as Resource[];
  return new Map(resources.map((resource) => [resource.kind, resource]));
}

const getContainer = (workload: Resource): Resource => workload.spec.template.spec.containers[0]!;

/** Returns the configuration of a container, with the `DATABASE_URL` of its secret and the variables of its ConfigMap. */
function loadPodConfig(container: Resource, resources: ReadonlyMap<string, Resource>) {
  const { data, metadata } = resources.get('ConfigMap');
  expect(container.envFrom[0]).toEqual({ configMapRef: { name: metadata.name } });
  const env = Object.fromEntries(container.env.map(({ name, value }: Resource) => [name, value]));
  return loadConfig(PRODUCT, { DATABASE_URL: 'postgres://a:secret@db/a', ...data, ...env });
}

kubectl.describe('deploy/kubernetes', () => {
  const app = useApp();

  it.each([
    ['base', 'ConfigMap Deployment Job NetworkPolicy PodDisruptionBudget Service', 'Deployment'],
    ['sqlite', 'ConfigMap NetworkPolicy Service StatefulSet', 'StatefulSet'],
  ])('renders valid resources that fit the service: %s', async (overlay, kinds, kind) => {
    const resources = await render(overlay);
    expect([...resources.keys()].toSorted().join(' ')).toBe(kinds);

    const workload = resources.get(kind);
    const { spec, metadata } = workload.spec.template;
    const container = getContainer(workload);
    const config = loadPodConfig(container, resources);
    expect(config).toMatchObject({ publicBaseUrl: expect.any(String) as string, trustProxy: 1 });
    expect(container.ports).toEqual([
      { name: 'http', containerPort: config.port },
      { name: 'metrics', containerPort: config.metricsPort },
    ]);
    for (const probe of [container.livenessProbe!, container.readinessProbe!]) {
      expect(probe.httpGet.port).toBe('http');
      expect((await app.send('GET', probe.httpGet.path, { key: '' })).status).toBe(200);
    }
    expect(spec.terminationGracePeriodSeconds! * 1000).toBeGreaterThanOrEqual(
      config.shutdownDelay + 10_000,
    );
    const service = resources.get('Service');
    expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
    const policy = resources.get('NetworkPolicy');
    for (const labels of [
      service.spec.selector,
      workload.spec.selector.matchLabels,
      policy.spec.podSelector.matchLabels,
    ])
      expect(metadata.labels).toEqual(labels);
    // Each port accepts connections from one namespace.
    expect(
      policy.spec.ingress.map(({ from, ports }: Resource) => [
        from.flatMap(({ namespaceSelector }: Resource) =>
          Object.values(namespaceSelector.matchLabels),
        ),
        ports.map(({ port }: Resource) => port),
      ]),
    ).toEqual([
      [['ingress-nginx'], ['http']],
      [['monitoring'], ['metrics']],
    ]);
  });

  it('migrates with a command of the service, in a pod that gets no requests', async () => {
    const resources = await render('base');
    const job = resources.get('Job');
    const { command, image, envFrom } = getContainer(job);
    expect(command).toEqual(['node', 'dist/cli/migrations.js', 'run']);
    expect(existsSync('src/cli/migrations.ts')).toBe(true);
    expect(job.spec.template.metadata?.labels).toBeUndefined();
    const container = getContainer(resources.get('Deployment'));
    expect(image).toBe(container.image);
    // One secret has the URL of the owner, and one that of the user.
    expect(container.envFrom[1]).toEqual({ secretRef: { name: 'api' } });
    expect(envFrom).toEqual([{ secretRef: { name: 'api-owner' } }]);
    expect(loadPodConfig(container, resources).migrations).toBe('off');
  });
});
