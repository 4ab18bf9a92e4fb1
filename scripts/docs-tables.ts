/**
 * `npm run docs:tables`: writes the environment variables into docs/configuration.md and .env.example, and the error codes
 * into docs/errors.md.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { declareVariables, type Variable } from '../src/platform/config/environment-variables.js';
import { FEATURES } from '../src/features.js';
import { createErrorTable } from '../src/platform/openapi/openapi-document.js';
import { getVariables } from '../src/platform/feature.decorator.js';
import { isMain } from '../src/cli/command.js';

const VARIABLES = /^\| Variable .*\n(\|.*\n)+/m;
const ERRORS = /^\| Code .*\n(\|.*\n)+/m;

/** Returns the files with their current content: the variables of the platform and of features, the codes of the platform. */
export async function renderDocs(features = FEATURES): Promise<Record<string, string>> {
  const variables = [
    declareVariables({ name: '<name>', keyPrefixes: ['<prefix>'] }),
    ...getVariables(features),
  ].flatMap((each) => Object.values<Variable>(each));
  const page = await readFile('docs/configuration.md', 'utf8');
  const errors = await readFile('docs/errors.md', 'utf8');
  const rows = variables.map(
    ({ name, default: text, secret, format: { expected }, description }) =>
      `| \`${name}\`${secret ? ` or \`${name}_FILE\`` : ''} | ${text ? `\`${text}\`` : 'unset'} | ${expected.replaceAll('<', '\\<')} | ${description} |\n`,
  );
  const table = `| Variable | Default | Value | Description |\n|---|---|---|---|\n${rows.join('')}`;
  const lines = variables.map(
    ({ name, default: text = '', secret }) =>
      `# ${name}=${text}\n${secret ? `# ${name}_FILE=\n` : ''}`,
  );
  return {
    'docs/configuration.md': page.replace(VARIABLES, () => table),
    'docs/errors.md': errors.replace(ERRORS, () => `${createErrorTable()}\n`),
    '.env.example': `# Copy to .env: the service and its commands read it from their working directory. docs/configuration.md describes each variable.\n\n${lines.join('')}`,
  };
}

if (isMain(import.meta))
  for (const [file, content] of Object.entries(await renderDocs())) await writeFile(file, content);
