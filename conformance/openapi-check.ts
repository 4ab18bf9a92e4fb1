/** `npm run openapi:check`: lists the changes of the OpenAPI document and whether they break clients. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { apiCompare, type Diff } from 'api-smart-diff';
import { Command, InvalidArgumentError } from 'commander';
import { parse } from 'yaml';
import { isMain, runCommand } from '../src/cli/command.js';

/** A difference between two OpenAPI documents. */
export interface Change {
  /** A breaking change is allowed if the operation is not stable yet or its sunset date has passed. */
  readonly kind: 'breaking' | 'allowed' | 'other';
  readonly text: string;
}

/** Lists all differences between two OpenAPI documents, breaking changes first. */
export function compare(before: OpenAPIObject, after: OpenAPIObject): Change[] {
  const { diffs } = apiCompare(before, after);
  return (
    diffs
      // Components are also reported below each operation that references them, and only that path shows
      // whether clients send or receive them.
      .filter(({ path: [section, kind] }) => section !== 'components' || kind === 'securitySchemes')
      .map((diff): Change => {
        const kind = !isBreaking(diff) ? 'other' : mayChange(before, diff) ? 'allowed' : 'breaking';
        return { kind, text: format(diff) };
      })
      .toSorted((a, b) => ORDER[a.kind] - ORDER[b.kind])
  );
}

const ORDER = { breaking: 0, allowed: 1, other: 2 };

/** Stricter than the library, which accepts removed properties, changed types and added enums. */
function isBreaking({ type, action, path }: Diff): boolean {
  const [name, parent] = [path.at(-1), path.at(-2)];
  if (type === 'breaking') return true;
  if (action === 'remove' && parent === 'properties') return true;
  const isSecurity =
    path[0] === 'security' || path[3] === 'security' || path[1] === 'securitySchemes';
  if (isSecurity) return type !== 'annotation' && name !== 'description';
  // Generated clients derive method names from it.
  if (name === 'operationId') return true;
  const isSchemaKeyword = parent !== 'properties' && !path.includes('example');
  return isSchemaKeyword && (name === 'type' || name === 'format' || parent === 'enum');
}

/** Returns whether the operation was marked as unstable or its announced sunset date has passed. */
function mayChange(before: OpenAPIObject, { path: [section, path, method] }: Diff): boolean {
  if (section !== 'paths') return false;
  const item = before.paths[String(path)] as Record<string, Record<string, string>> | undefined;
  const { 'x-stability': stability, 'x-sunset': sunset } = item?.[String(method)] ?? {};
  return stability !== undefined || (sunset !== undefined && Date.parse(sunset) <= Date.now());
}

const formatValue = (value: unknown): string => JSON.stringify(value)?.slice(0, 80) ?? 'nothing';

function format({ action, path, before, after }: Diff): string {
  const change =
    action === 'replace'
      ? `: ${formatValue(before)} became ${formatValue(after)}`
      : ` ${ACTIONS[action]}`;
  return `${path.join(' > ')}${change}`;
}

const ACTIONS = { add: 'was added', remove: 'was removed', rename: 'was renamed', test: '' };

/**
 * Reads an OpenAPI document from a file, or `openapi.json` from a git ref.
 * @throws {InvalidArgumentError} if there is neither
 */
function readDocument(fileOrRef: string): OpenAPIObject {
  if (existsSync(fileOrRef)) return parse(readFileSync(fileOrRef, 'utf8')) as OpenAPIObject;
  const committed = `${fileOrRef}:openapi.json`;
  const { status, stdout } = spawnSync('git', ['show', committed], { encoding: 'utf8' });
  if (status !== 0)
    throw new InvalidArgumentError(
      `${fileOrRef} is neither a file nor a git ref that contains openapi.json.`,
    );
  return parse(stdout) as OpenAPIObject;
}

const getMajorVersion = ({ info }: OpenAPIObject): string => info.version.split('.')[0]!;

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('openapi:check')
    .description(
      'List the changes of openapi.json; exits with 1 on a breaking change within a major version',
    )
    .requiredOption('--against <ref or file>', 'git ref or file to compare with', readDocument)
    .action(check);
  await runCommand(program, args);
}

function check({ against: before }: { against: OpenAPIObject }): void {
  const after = readDocument('openapi.json');
  const changes = compare(before, after);
  for (const { kind, text } of changes) {
    process.stdout.write(
      `${kind === 'other' ? '' : `${kind === 'allowed' ? 'breaking, but allowed' : kind}: `}${text}\n`,
    );
  }
  const breaking = changes.filter(({ kind }) => kind === 'breaking').length;
  process.stdout.write(`${changes.length} changes, ${breaking} of them breaking\n`);
  if (breaking > 0 && getMajorVersion(before) === getMajorVersion(after)) process.exitCode = 1;
}

if (isMain(import.meta)) await main(process.argv.slice(2));
