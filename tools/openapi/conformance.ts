/** `npm run conformance`: runs the conformance checks against a deployment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { Command, InvalidArgumentError } from 'commander';

interface Options {
  /** URL prefix of the operations, including the version, without a trailing slash. */
  readonly baseUrl: string;
  readonly key: string;
  /** Sends only GET requests. */
  readonly readOnly?: boolean;
  /** Path of the JSON report. */
  readonly report?: string;
}

/** The workflows, relative to the root of the repository. */
const WORKFLOWS = 'tools/openapi/conformance.arazzo.yaml';
/** The workflows that send only GET requests. */
const READ_ONLY_WORKFLOWS = ['list-categories', 'list-categories-unauthorized'];

/**
 * Runs the workflows with Redocly's `respect`. The working directory must be the root of the
 * repository; only the deployment is accessed over the network. The checks are printed to standard
 * output; neither the output nor the report contains keys.
 *
 * @returns the exit code: 0 if the deployment conforms to the OpenAPI document
 */
export async function checkConformance(
  { baseUrl, key, readOnly = false, report }: Options,
  stdio: 'inherit' | 'ignore' = 'inherit',
): Promise<number> {
  const name = `Conformance check ${new Date().toISOString()}`;
  const child = spawn(
    process.execPath,
    [
      'node_modules/@redocly/cli/bin/cli.js',
      'respect',
      WORKFLOWS,
      ...(readOnly ? READ_ONLY_WORKFLOWS.map((id) => `--workflow=${id}`) : []),
      `--server=api=${baseUrl}`,
      ...(report === undefined ? [] : [`--json-output=${report}`]),
    ],
    {
      env: {
        ...process.env,
        // Any user of the machine can read command-line arguments, but not the environment.
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
    throw new InvalidArgumentError('must be a URL such as https://staging.example/v1');
  }
  return new URL(text).href.replace(/\/+$/, '');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const command = new Command('conformance')
    .description('Check a deployment against openapi.json; exits with 1 if a check fails')
    .requiredOption('--base-url <url>', 'URL such as https://staging.example/v1', parseBaseUrl)
    .requiredOption('--key <key>', 'valid API key (or set API_KEY)')
    .option('--read-only', 'send only GET requests')
    .option('--report <file>', 'write a JSON report to this file')
    .setOptionValueWithSource('key', process.env['API_KEY'], 'env');
  process.exitCode = await checkConformance(command.parse().opts<Options>());
}
