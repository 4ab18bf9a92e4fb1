import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { getCommand } from '../support/project-copy.js';

describe('examples/api.d.ts', () => {
  it('equals what `npm run openapi:types` writes', async () => {
    const command = getCommand('openapi-typescript');
    const { stdout } = await promisify(execFile)(command, ['openapi.json']);
    expect(await readFile('examples/api.d.ts', 'utf8')).toBe(stdout);
  });
});
