import { readdirSync, readFileSync } from 'node:fs';
import { getBuiltFile } from '../support/build.js';
import { type CommandResult, startProgram } from '../support/cli.js';

/** Runs a compiled file, with no arguments, on a process that pretends to be another release of Node. */
function runOn(version: string, file: string): Promise<CommandResult> {
  const versions = `{ ...process.versions, node: '${version}' }`;
  const pretend = `Object.defineProperty(process, 'versions', { value: ${versions} })`;
  const args = ['--import', `data:text/javascript,${pretend}`, getBuiltFile(file)];
  return startProgram(process.execPath, args).result;
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
      expect(await runOn('20.20.2', file)).toEqual({
        code: 1,
        stdout: '',
        stderr: getMessage('20.20.2'),
      });
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
