import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { getBuiltFile } from '../support/build.js';

interface Result {
  readonly code: unknown;
  readonly stderr: string;
}

/** Runs a compiled file, with no arguments, on a process that pretends to be another release of Node. */
function runOn(version: string, file: string): Promise<Result> {
  const versions = `{ ...process.versions, node: '${version}' }`;
  const pretend = `Object.defineProperty(process, 'versions', { value: ${versions} })`;
  const args = ['--import', `data:text/javascript,${pretend}`, getBuiltFile(file)];
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, _stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stderr }),
    );
  });
}

const getMessage = (version: string): string =>
  `Node ${version} is not supported: use Node 22.14 or later, 24.11 or later, or 26.\n`;

const commands = readdirSync('src/cli')
  .filter((name) => /\bisMain\(/.test(readFileSync(`src/cli/${name}`, 'utf8')))
  .filter((name) => name !== 'command.ts')
  .map((name) => `src/cli/${name.replace('.ts', '.js')}`);

describe('an unsupported release of Node', () => {
  it.each(['src/main.js', ...commands])(
    'ends %s with one sentence and exit code 1',
    async (file) => {
      expect(await runOn('20.20.2', file)).toEqual({ code: 1, stderr: getMessage('20.20.2') });
    },
  );
});

describe('the check of the release of Node', () => {
  it.each([
    ['22.14.0', 0],
    ['22.13.1', 1],
    ['23.11.1', 1],
    ['24.10.0', 1],
    ['24.11.0', 0],
    ['26.10.0', 0],
  ])('accepts what package.json accepts as engines: %s', async (version, code) => {
    const engines: unknown = JSON.parse(readFileSync('package.json', 'utf8')).engines;
    expect(engines).toEqual({ node: '^22.14.0 || >=24.11.0' });
    const check = await runOn(version, 'src/platform/application/check-node-version.js');
    expect(check.code).toBe(code);
  });
});
