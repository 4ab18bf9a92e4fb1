import { readFile } from 'node:fs/promises';
import { startProgram } from '../support/cli.js';
import { getCommand } from '../support/project-copy.js';

describe('examples/api.d.ts', () => {
  it('equals what `npm run openapi:types` writes', async () => {
    const command = getCommand('openapi-typescript');
    const { stdout } = await startProgram(command, ['openapi.json']).result;
    expect(await readFile('examples/api.d.ts', 'utf8')).toBe(stdout);
  });
});
