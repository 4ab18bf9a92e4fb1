/** `npm run openapi:check`: names what differs between two documents, and what of it breaks clients. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import type { OpenAPIObject } from '@nestjs/swagger';
import { apiCompare, type Diff } from 'api-smart-diff';
import { Command, InvalidArgumentError } from 'commander';
import { parse } from 'yaml';

/** A difference between two documents. */
export interface Change {
  /** What breaks is allowed where the operation may still change, or has ended. */
  readonly kind: 'breaking' | 'allowed' | 'other';
  readonly text: string;
}

/** Every difference between two OpenAPI documents, those that break clients first. */
export function compare(before: OpenAPIObject, after: OpenAPIObject): Change[] {
  const { diffs } = apiCompare(before, after);
  return (
    diffs
      // Each stands below the operations too, and only there it is known whether clients send or receive it.
      .filter(({ path: [section, kind] }) => section !== 'components' || kind === 'securitySchemes')
      .map((diff): Change => {
        const kind = !isBreaking(diff) ? 'other' : mayBreak(before, diff) ? 'allowed' : 'breaking';
        return { kind, text: describe(diff) };
      })
      .toSorted((a, b) => ORDER[a.kind] - ORDER[b.kind])
  );
}

const ORDER = { breaking: 0, allowed: 1, other: 2 };

/** Stricter than the library, which lets properties go, types change and an enum begin. */
function isBreaking({ type, action, path }: Diff): boolean {
  const [name, parent] = [path.at(-1), path.at(-2)];
  if (type === 'breaking') return true;
  if (action === 'remove' && parent === 'properties') return true;
  const isSecurity =
    path[0] === 'security' || path[3] === 'security' || path[1] === 'securitySchemes';
  if (isSecurity) return type !== 'annotation' && name !== 'description';
  // The names of generated clients come from it.
  if (name === 'operationId') return true;
  const isSchemaKeyword = parent !== 'properties' && !path.includes('example');
  return isSchemaKeyword && (name === 'type' || name === 'format' || parent === 'enum');
}

/** Whether the operation said that it may still change, or said that it would end, and has. */
function mayBreak(before: OpenAPIObject, { path: [section, path, method] }: Diff): boolean {
  if (section !== 'paths') return false;
  const item = before.paths[String(path)] as Record<string, Record<string, string>> | undefined;
  const { 'x-stability': stability, 'x-sunset': sunset } = item?.[String(method)] ?? {};
  return stability !== undefined || (sunset !== undefined && Date.parse(sunset) <= Date.now());
}

const show = (value: unknown): string => JSON.stringify(value)?.slice(0, 80) ?? 'nothing';

function describe({ action, path, before, after }: Diff): string {
  const change =
    action === 'replace' ? `: ${show(before)} became ${show(after)}` : ` ${ACTIONS[action]}`;
  return `${path.join(' > ')}${change}`;
}

const ACTIONS = { add: 'was added', remove: 'was removed', rename: 'was renamed', test: '' };

/** @throws {InvalidArgumentError} where it is neither a file nor a commit with an `openapi.json` */
function read(fileOrRef: string): OpenAPIObject {
  if (existsSync(fileOrRef)) return parse(readFileSync(fileOrRef, 'utf8')) as OpenAPIObject;
  const committed = `${fileOrRef}:openapi.json`;
  const { status, stdout } = spawnSync('git', ['show', committed], { encoding: 'utf8' });
  if (status !== 0)
    throw new InvalidArgumentError(`There is no file ${fileOrRef}, and no ${committed} in git.`);
  return parse(stdout) as OpenAPIObject;
}

const major = ({ info }: OpenAPIObject): string => info.version.split('.')[0]!;

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { against: before } = new Command('openapi:check')
    .description('Names every change of openapi.json; exits with 1 where one breaks clients of v1.')
    .requiredOption('--against <ref or file>', 'what to compare with: a git ref, or a file', read)
    .parse()
    .opts<{ against: OpenAPIObject }>();
  const after = read('openapi.json');
  const changes = compare(before, after);
  for (const { kind, text } of changes) {
    console.log(
      `${kind === 'other' ? '' : `${kind === 'allowed' ? 'breaking, but allowed' : kind}: `}${text}`,
    );
  }
  const breaking = changes.filter(({ kind }) => kind === 'breaking').length;
  console.log(`Changes: ${changes.length}, of which ${breaking} break clients.`);
  if (breaking > 0 && major(before) === major(after)) process.exitCode = 1;
}
