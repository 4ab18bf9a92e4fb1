/** Runs Specmatic's resiliency tests: valid requests with every limit, and requests with one mistake each. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandSucceeds, requires } from './requirements.js';

/** What npx fetches: 77 MB, the Java archive included. */
const PACKAGE = 'specmatic@2.55.1';
const JAR =
  'readlink -f "$(dirname "$(readlink -f "$(command -v specmatic)")")/../../specmatic.jar"';
const TIMEOUT_MS = 180_000;

const hasJava = commandSucceeds('java', ['-version']);
// Without retries, npm notices within a second that there is no registry.
const view = ['view', PACKAGE, 'version', '--fetch-retries=0', '--fetch-timeout=10000'];
const hasRegistry = hasJava && commandSucceeds('npm', view);

/** `describe`, which skips its tests without Java or the registry. */
export const specmatic = requires(hasJava ? 'the npm registry' : 'java', hasRegistry);

/** What Specmatic found. */
export interface SpecmaticResult {
  /** The number of tests that passed, by their kind and operation, such as `-ve POST /categories`. */
  readonly passed: Readonly<Record<string, number>>;
  /** The tests that failed, with their requests and responses. */
  readonly failed: readonly string[];
}

/**
 * Tests the operations of a service with a copy of its document, in which it changes what Specmatic cannot read, and
 * writes the number of the tests to standard error.
 *
 * @param url of the service, without `/v1`
 * @param sections the parts of the paths that the tests are limited to, such as `/categories`
 * @param values the only values of parameters, by their names
 * @throws {Error} with its output, if it ran no test or takes more than three minutes
 */
export async function runSpecmatic(
  url: string,
  key: string,
  sections: readonly string[],
  values: Readonly<Record<string, string>> = {},
): Promise<SpecmaticResult> {
  const jar = execFileSync('npx', ['--yes', '--package', PACKAGE, '-c', JAR], { encoding: 'utf8' });
  const directory = await mkdtemp(join(tmpdir(), 'petstore-specmatic-'));
  const text = await (await fetch(`${url}/openapi.json`)).text();
  await writeFile(join(directory, 'openapi.json'), adapt(text, sections, values));
  const env = {
    ...process.env,
    SPECMATIC_GENERATIVE_TESTS: 'true',
    SPECMATIC_DISABLE_TELEMETRY: 'true',
    // The number of combinations of values grows exponentially with that of properties.
    MAX_TEST_REQUEST_COMBINATIONS: '20',
    // The name of the security scheme.
    apiKey: key,
  };
  const args = ['-jar', jar.trim(), 'test', `--testBaseURL=${url}/v1`, 'openapi.json'];
  const options = { cwd: directory, env, timeout: TIMEOUT_MS, maxBuffer: 256 * 1024 * 1024 };
  const output = await new Promise<string>((resolve) => {
    execFile('java', args, { ...options, killSignal: 'SIGKILL' }, (_error, stdout) =>
      resolve(stdout),
    );
  });
  await rm(directory, { recursive: true });
  return parse(output);
}

function adapt(
  text: string,
  sections: readonly string[],
  values: Readonly<Record<string, string>>,
): string {
  const document = JSON.parse(text, (name: string, value: unknown) => {
    // It cannot parse a quotation mark, and reads `\x00` as letters.
    if (name === 'pattern' && /"|\\x/.test(String(value))) return undefined;
    // It sends one Idempotency-Key with different bodies.
    if (name === 'parameters' && Array.isArray(value))
      return value.filter((parameter: { name: string }) => parameter.name !== 'Idempotency-Key');
    // It does not know what exists. It would also delete it before it tests the other operations.
    if (name === 'delete') return undefined;
    const only = values[Object(value).name as string];
    return only === undefined
      ? value
      : { ...(value as object), schema: { type: 'string', enum: [only] } };
  }) as { paths: Record<string, unknown> };
  for (const path of Object.keys(document.paths))
    if (!sections.some((section) => path.startsWith(section))) delete document.paths[path];
  return JSON.stringify(document);
}

function parse(output: string): SpecmaticResult {
  const summary = /^Tests run: (\d+), Successes: (\d+), Failures: (\d+)/m.exec(output);
  const passed: Record<string, number> = {};
  const failed: string[] = [];
  for (const test of output.split(/^-{20}$/m)) {
    const found = /^([+-]ve) +Scenario: (\w+ \S+) .* has (SUCCEEDED|FAILED)/m.exec(test);
    if (found === null) continue;
    const name = `${found[1]} ${found[2]!.replaceAll(/\((\w+):\w+\)/g, '{$1}')}`;
    if (found[3] === 'SUCCEEDED') passed[name] = (passed[name] ?? 0) + 1;
    else failed.push(test.slice(0, 5_000));
  }
  const count = Object.values(passed).reduce((sum, each) => sum + each, 0);
  process.stderr.write(`Specmatic: ${count} tests passed, ${failed.length} failed\n`);
  // A document that it cannot read is a failure without a test.
  const isComplete = summary?.[2] === String(count) && summary[3] === String(failed.length);
  if (count === 0 || !isComplete) throw new Error(`Specmatic failed:\n${output.slice(-5_000)}`);
  return { passed, failed };
}
