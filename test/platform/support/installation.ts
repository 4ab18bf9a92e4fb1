import { execFile } from 'node:child_process';
import { appendFile, readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { PRODUCT } from '../../../src/product.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');

/** The environment of a shell that knows neither this project nor its Node.js, except for the settings of the registry. */
export const machineEnvironment: NodeJS.ProcessEnv = {
  // The rest belongs to the npm and Jest of this process.
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) =>
      /^(HOME|npm_config_(registry|cache|userconfig|cafile)|NODE_EXTRA_CA_CERTS)$/.test(name),
    ),
  ),
  PATH: process.env['PATH']!.split(delimiter)
    .filter((path) => !path.includes('modules'))
    .join(delimiter),
};

/** A lock file of npm. */
export interface Lock {
  readonly packages: Readonly<Record<string, { version: string; dev?: boolean }>>;
}

export const readJson = async <T>(...path: string[]): Promise<T> =>
  JSON.parse(await readFile(join(...path), 'utf8')) as T;

/** Reads the lock file of what is installed in a directory. */
export const readInstalled = (directory: string): Promise<Lock> =>
  readJson<Lock>(directory, 'node_modules/.package-lock.json');

/** Fails unless the SBOM in a directory is that of the product, and lists exactly the packages that are installed there. */
export async function expectSbom(directory: string): Promise<void> {
  const { packages } = await readInstalled(directory);
  const installed = Object.entries(packages).map(
    ([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`,
  );
  type Sbom = { components: { 'bom-ref': string }[]; metadata: { component: object } };
  const sbom = await readJson<Sbom>(directory, 'sbom.cdx.json');
  const { name, version } = PRODUCT;
  expect(sbom.metadata.component).toMatchObject({ name, version });
  const listed = sbom.components.map((component) => component['bom-ref']);
  expect(listed.toSorted()).toEqual([...new Set(installed)].toSorted());
}

/** Adds the categories to the features in a directory, which builds and serves them, as fixture.ts does for other tests. */
export async function addFixture(directory: string): Promise<void> {
  const lines = `import { CategoriesModule as Fixture } from './modules/categories/categories.module.js';
if (!FEATURES.includes(Fixture)) (FEATURES as unknown[]).unshift(Fixture);
`;
  await appendFile(join(directory, 'src/features.ts'), lines);
}

/** Clones the project, with the changes that are not committed. */
export async function cloneProject(directory: string): Promise<void> {
  const clone =
    'git clone --quiet . "$0" && git diff --binary HEAD | git -C "$0" apply --allow-empty';
  await promisify(execFile)('sh', ['-c', clone, directory], { cwd: ROOT });
}
