/** `npm run conformance`: checks a running deployment against the published interface. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { Command, InvalidArgumentError } from 'commander';

interface Options {
  /** The address below which the operations stand, with the version and without a slash at its end. */
  readonly baseUrl: string;
  readonly key: string;
  /** Sends nothing but GET. */
  readonly readOnly?: boolean;
  /** The file for a report in JSON. */
  readonly report?: string;
}

/**
 * Runs the workflows with Redocly's `respect`, in the directory of the project, offline but for the
 * deployment. It writes what it checks to standard output; keys appear neither there nor in the report.
 *
 * @returns the exit code: 0 where everything is as published
 */
export async function checkConformance(
  { baseUrl, key, readOnly = false, report }: Options,
  stdio: 'inherit' | 'ignore' = 'inherit',
): Promise<number> {
  const files = ['read', ...(readOnly ? [] : ['write'])].map((f) => `conformance/${f}.arazzo.yaml`);
  const name = `Conformance check ${new Date().toISOString()}`;
  const child = spawn(
    process.execPath,
    [
      'node_modules/@redocly/cli/bin/cli.js',
      'respect',
      ...files,
      `--server=petstore=${baseUrl}`,
      ...(report === undefined ? [] : [`--json-output=${report}`]),
    ],
    {
      env: {
        ...process.env,
        // Not an argument, which everybody on the machine could read.
        REDOCLY_CLI_RESPECT_INPUT: JSON.stringify({ key, name }),
        REDOCLY_TELEMETRY: 'off',
        REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
      },
      stdio: ['ignore', stdio, stdio],
    },
  );
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
}

function parseBaseUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:[^?#]*$/i.test(text)) {
    throw new InvalidArgumentError('It must be an address such as https://staging.example/v1.');
  }
  return new URL(text).href.replace(/\/+$/, '');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const command = new Command('conformance')
    .description('Checks a running deployment against openapi.json; exits with 1 on a violation.')
    .requiredOption('--base-url <url>', 'such as https://staging.example/v1', parseBaseUrl)
    .requiredOption('--key <key>', 'a valid API key; or PETSTORE_API_KEY')
    .option('--read-only', 'create nothing')
    .option('--report <file>', 'write a report in JSON')
    .setOptionValueWithSource('key', process.env['PETSTORE_API_KEY'], 'env');
  process.exitCode = await checkConformance(command.parse().opts<Options>());
}
