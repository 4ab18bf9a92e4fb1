/** Takes the modules of public contracts through all that a team would do with them; `npm run corpus -- --drive` runs it. */
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { driveContract } from '../../../../test/platform/support/contract-driver.js';
import { getCommand } from '../../../../test/platform/support/project-copy.js';
import { requires } from '../../../../test/platform/support/requirements.js';
import { BOOTSTRAP_KEY } from '../../../../test/platform/support/service-process.js';
import { Guide } from '../../../generator/test/slow/guide.js';

import.meta.jest.setTimeout(7_200_000);

/** The seed, and the paths of the documents that were drawn with it. */
const { DRIVE_SEED = '', DRIVE_DOCUMENTS = '' } = process.env;
const ROOT = join(import.meta.dirname, '../../../..');
const CORPUS = join(ROOT, 'build/corpus');
const DATABASES = ['sqlite', 'postgres'] as const;

requires('npm run corpus -- --drive', DRIVE_SEED !== '').describe(
  'the modules that were drawn',
  () => {
    it('pass everything at the first attempt', async () => {
      const failures = new Failures();
      const folder = await mkdtemp(join(tmpdir(), 'petstore-drive-'));
      const guide = await Guide.create();
      try {
        await guide.npm('build:tools');
        const modules: Module[] = [];
        for (const path of DRIVE_DOCUMENTS.split(' ')) {
          const [provider] = relative('build/corpus/package/api', path).split('/');
          const name = provider!.replace('.json', '').replaceAll(/[^a-z\d]+/g, '-');
          const file = join(folder, `${name}.openapi.json`);
          await copyFile(join(ROOT, path), file);
          const output = await failures.attempt(name, 'generate', () =>
            guide.generateAgain(file, ...toPrefix(name)),
          );
          const implemented = [...(output ?? '').matchAll(/^(\S+ \S+) +implemented/gm)];
          modules.push({ name, file, implemented: implemented.map(([, operation]) => operation!) });
        }
        await check(guide, modules, failures);
        for (const type of DATABASES) await drive(guide, type, modules, failures);
        await report(modules, failures);
      } finally {
        await guide.copy.remove();
        await rm(folder, { recursive: true });
      }
      expect(failures.lines).toEqual([]);
    });
  },
);

/** The options for a prefix of its own: several contracts have a collection such as `/webhooks`. */
const toPrefix = (name: string): readonly string[] => ['--prefix', `/${name}`];

interface Module {
  readonly name: string;
  readonly file: string;
  readonly implemented: readonly string[];
}

/** What failed, in the order in which it was found: a line each. */
class Failures {
  readonly lines: string[] = [];
  readonly modules = new Set<string>();

  add(module: string, step: string, detail: string): void {
    this.modules.add(module);
    this.lines.push(`${module}: ${step}: ${detail.trim().replaceAll(/\s+/g, ' ').slice(0, 600)}`);
  }

  async attempt<Value>(
    module: string,
    step: string,
    action: () => Promise<Value>,
  ): Promise<Value | undefined> {
    try {
      return await action();
    } catch (error) {
      this.add(module, step, String(error));
      return undefined;
    }
  }
}

/** Runs every check and the tests on both databases. A line of output that fails is that of the module whose path it has. */
async function check(guide: Guide, modules: readonly Module[], failures: Failures): Promise<void> {
  await guide.git('add', '--intent-to-add', '.');
  const changed = await guide.git('diff', '--name-only', '--diff-filter=d', 'HEAD');
  const files = changed.trim().split('\n');
  const sources = files.filter((path) => path.endsWith('.ts'));
  const tests = modules.map(({ name }) => `/test/${name}\\.`);
  const steps: Record<string, () => Promise<{ failed: boolean; output: string }>> = {
    'npm run openapi': () => guide.copy.npm('openapi'),
    typecheck: () => guide.copy.npm('typecheck'),
    oxlint: () =>
      guide.copy.run(getCommand('oxlint'), [
        '--type-aware',
        '--deny-warnings',
        '--format=unix',
        ...sources,
      ]),
    depcruise: () => guide.copy.run(getCommand('depcruise'), ['src']),
    prettier: () => guide.copy.run(getCommand('prettier'), ['--check', ...files]),
    // Not OWASP's rules: what they find is in the contracts.
    redocly: () => guide.copy.run(getCommand('redocly'), ['lint', 'openapi.json']),
    tests: () => guide.copy.npm('test', '--', ...tests),
  };
  for (const [step, run] of Object.entries(steps)) {
    const { failed, output } = await run();
    await writeFile(join(CORPUS, `drive-${step.replaceAll(/\W+/g, '-')}.log`), output);
    if (step === 'tests') addTests(modules, output, failures);
    else if (failed) addLines(modules, step, output, failures);
  }
  for (const { name, file } of modules) {
    const { output } = await guide.copy.npm(
      'openapi:check',
      '--',
      '--contract',
      file,
      ...toPrefix(name),
    );
    if (!output.includes(': 0\n')) failures.add(name, 'openapi:check', output.slice(-600));
    const again = await guide.copy.run(process.execPath, [
      'build/tools/generator/generate.js',
      'from',
      file,
      ...toPrefix(name),
    ]);
    if (!again.output.includes('Nothing to write.'))
      failures.add(name, 'generate again', again.output.slice(-600));
  }
}

function addLines(
  modules: readonly Module[],
  step: string,
  output: string,
  failures: Failures,
): void {
  const lines = output.split('\n');
  const found = modules.flatMap(({ name }) => {
    const own = lines.find((line) => new RegExp(`(modules/${name}/|test/${name}[.])`).test(line));
    return own === undefined ? [] : [[name, own] as const];
  });
  for (const [name, line] of found) failures.add(name, step, line);
  if (found.length === 0) failures.add('the service', step, output.slice(-600));
}

function addTests(modules: readonly Module[], output: string, failures: Failures): void {
  for (const { name } of modules)
    for (const type of DATABASES) {
      const fail = new RegExp(
        `^FAIL ${type} test/${name}[.](.*\n)+?(?=PASS|FAIL|Test Suites)`,
        'm',
      );
      const [text] = fail.exec(output) ?? [];
      const isMissing = !new RegExp(`^PASS ${type} test/${name}[.]`, 'm').test(output);
      if (text !== undefined) {
        const failed = [...text.matchAll(/✕ (.*)/g)].map(([, test]) => test).join('; ');
        failures.add(name, `tests on ${type}`, `${failed}\n${text.slice(text.indexOf('●'))}`);
      } else if (isMissing) failures.add(name, `tests on ${type}`, 'there are none');
    }
}

/** Starts the service, and sends the requests that each contract describes. */
async function drive(
  guide: Guide,
  type: (typeof DATABASES)[number],
  modules: readonly Module[],
  failures: Failures,
): Promise<void> {
  const service = await failures.attempt('the service', `start on ${type}`, () =>
    guide.serve(type),
  );
  if (service === undefined) return;
  for (const { name, file, implemented } of modules)
    await failures.attempt(name, `driver on ${type}`, async () => {
      const result = await driveContract(file, `${service.url}/${name}`, BOOTSTRAP_KEY);
      for (const difference of result.differences)
        failures.add(name, `driver on ${type}`, difference);
      const skipped = implemented.filter(
        (each) => !result.requested.includes(each.replace(` /${name}/`, ' /')),
      );
      if (skipped.length > 0)
        failures.add(name, `driver on ${type}`, `sent no request of ${skipped.join(', ')}`);
    });
  await service.close();
}

async function report(modules: readonly Module[], { lines, modules: failed }: Failures) {
  const operations = modules.flatMap(({ implemented }) => implemented).length;
  const passed = modules.filter(({ name }) => !failed.has(name));
  const text = [
    `${modules.length} modules drawn with ${DRIVE_SEED}, with ${operations} implemented operations: ${passed.length} pass everything at the first attempt.`,
    ...modules.map(({ name, implemented }) => `${name}: ${implemented.length} implemented`),
    ...lines,
  ].join('\n');
  await mkdir(CORPUS, { recursive: true });
  await writeFile(join(CORPUS, `drive-${DRIVE_SEED}.txt`), `${text}\n`);
}
