/**
 * `npm run openapi:check`: lists the changes of the OpenAPI document and whether they break clients.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { apiCompare, type Diff } from 'api-smart-diff';
import { Command, InvalidArgumentError } from 'commander';
import { parse } from 'yaml';
import { NOT_BLANK, PLAIN_TEXT } from '../../src/platform/validation/plain-text.js';
import { MAX_ETAGS_LENGTH } from '../../src/platform/http/server/server-options.js';
import {
  IDEMPOTENCY_KEY,
  IDEMPOTENCY_KEY_LENGTH,
} from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { FORMATS } from '../../src/platform/validation/scalar-violations.js';
import { isMain, runCommand } from '../../src/cli/command.js';

/** A difference between two OpenAPI documents. */
export interface Change {
  /** A breaking change is allowed if no client can depend on the operation; see {@link mayChange}. */
  readonly kind: 'breaking' | 'allowed' | 'other';
  readonly text: string;
}

/** Lists all differences between two OpenAPI documents, breaking changes first. */
export function compare(before: OpenAPIObject, after: OpenAPIObject): Change[] {
  const { diffs } = apiCompare(before, after);
  return (
    diffs
      // Changes of components are listed below each operation that uses them, where it is known whether clients send them.
      .filter(({ path: [section, kind] }) => section !== 'components' || kind === 'securitySchemes')
      .map((diff): Change => {
        const kind = !isBreaking(diff, after)
          ? 'other'
          : mayChange(before, diff)
            ? 'allowed'
            : 'breaking';
        return { kind, text: format(diff) };
      })
      .toSorted((a, b) => ORDER[a.kind] - ORDER[b.kind])
  );
}

const ORDER = { breaking: 0, allowed: 1, other: 2 };

/** Whether a change breaks clients. The library accepts removed properties, changed types and added enums. */
function isBreaking(diff: Diff, document: OpenAPIObject): boolean {
  const { type, action, path, before, after } = diff;
  const [name, parent] = [path.at(-1), path.at(-2)];
  // Clients must expect any status, whether or not it is documented.
  if (action === 'remove' && parent === 'responses' && name === 'default') return false;
  if (name === 'pattern' && excludesOnlyInvalid(before, after)) return false;
  if (action === 'add' && (name === 'pattern' || name === 'maxLength')) {
    // Clients that accept any text accept a limited one, too.
    if (path[3] === 'responses') return false;
    if (name === 'maxLength' && isImplied(diff, document)) return false;
  }
  if (type === 'breaking') return true;
  if (action === 'remove' && parent === 'properties') return true;
  const isSecurity =
    path[0] === 'security' || path[3] === 'security' || path[1] === 'securitySchemes';
  if (isSecurity) return type !== 'annotation' && name !== 'description';
  // Generated clients derive method names from the operationId.
  if (name === 'operationId') return true;
  const isSchemaKeyword = parent !== 'properties' && !path.includes('example');
  return isSchemaKeyword && (name === 'type' || name === 'format' || parent === 'enum');
}

/** Whether a new pattern excludes only texts that the service has never accepted. */
const excludesOnlyInvalid = (before: unknown, after: unknown): boolean =>
  after === PLAIN_TEXT ||
  (after === NOT_BLANK && before === FORMER_NOT_BLANK) ||
  (after === IDEMPOTENCY_KEY.source && before === undefined);

/** Whether a new maximum length excludes only texts that the service has never accepted, or more than a hundred ETags. */
function isImplied({ path, after }: Diff, document: OpenAPIObject): boolean {
  const schema = Object(find(document, path.slice(0, -1))) as { format?: string; pattern?: string };
  if (schema.pattern === IDEMPOTENCY_KEY.source) return after === IDEMPOTENCY_KEY_LENGTH;
  if (path.includes('parameters') && after === MAX_ETAGS_LENGTH) return true;
  return after === FORMATS[schema.format ?? '']?.length;
}

/** Returns a part of a document, following references; undefined if the path is not one of the document. */
const find = (document: OpenAPIObject, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((value, name) => {
    const inner = (value as Record<PropertyKey, unknown> | undefined)?.[name];
    const { $ref } = Object(inner) as { $ref?: string };
    return $ref === undefined ? inner : find(document, $ref.split('/').slice(1));
  }, document);

/** The pattern of earlier versions, which excluded neither NUL nor texts of only control characters. */
const FORMER_NOT_BLANK = String.raw`[^\s\u0085]`;

/** The properties of an operation that decide whether it may change. */
interface Operation {
  readonly responses: Record<string, { readonly description?: string }>;
  readonly 'x-stability'?: string;
  readonly 'x-sunset'?: string;
}

/**
 * Whether a breaking change is allowed: the operation was marked as unstable, its sunset date has passed, or it was a
 * placeholder that returned 501.
 */
function mayChange(before: OpenAPIObject, { path: [section, path, method] }: Diff): boolean {
  if (section !== 'paths') return false;
  const item = before.paths[String(path)] as Record<string, Operation> | undefined;
  const operation = item?.[String(method)];
  if (operation === undefined) return false;
  const { 'x-stability': stability, 'x-sunset': sunset } = operation;
  const isSunset = sunset !== undefined && Date.parse(sunset) <= Date.now();
  return stability !== undefined || isSunset || isPlaceholder(operation);
}

/**
 * Whether an operation is not implemented: it documents 501 without a success, or successes whose descriptions begin with
 * "Not implemented yet".
 */
function isPlaceholder({ responses }: Operation): boolean {
  const successes = Object.keys(responses).filter((status) => /^[23]/.test(status));
  if (successes.length === 0) return '501' in responses;
  return successes.every((status) =>
    responses[status]!.description?.startsWith('Not implemented yet'),
  );
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
  const committed = git('show', `${fileOrRef}:./openapi.json`);
  if (committed === undefined)
    throw new InvalidArgumentError(
      `${fileOrRef} is neither a file nor a git ref that contains openapi.json.`,
    );
  return parse(committed) as OpenAPIObject;
}

/** Runs git and returns its output, or undefined if it failed. */
function git(...args: string[]): string | undefined {
  // Node fails for more than 1 MiB by default.
  const options = { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 } as const;
  const { status, stdout } = spawnSync('git', args, options);
  return status === 0 ? stdout.trim() : undefined;
}

/** Returns the id of a commit, or undefined if it does not exist. */
const findCommit = (ref: string): string | undefined =>
  git('rev-parse', '--quiet', '--verify', '--end-of-options', `${ref}^{commit}`);

/**
 * Returns the commit to compare with: the merge base of HEAD and the target branch, so that unreleased changes are not
 * compared with each other. On the target branch, or without one, this is the first parent of HEAD: the state before the
 * last merge.
 *
 * @param target the target branch; `origin/main` by default, or `main` without that
 * @returns undefined if there is no earlier commit
 * @throws {Error} if the given target branch or the merge base does not exist
 */
function findBase(target?: string): string | undefined {
  const [head, parent] = [findCommit('HEAD'), findCommit('HEAD^')];
  const branch = target ?? DEFAULT_TARGETS.find((name) => findCommit(name) !== undefined);
  if (target !== undefined && findCommit(target) === undefined)
    throw new Error(`The target branch ${target} does not exist in this repository.`);
  if (head === undefined || branch === undefined) return parent;
  const base = git('merge-base', 'HEAD', branch);
  if (base === undefined) {
    throw new Error(
      `HEAD and ${branch} have no common commit. In a shallow clone, run git fetch --unshallow first.`,
    );
  }
  return base === head ? parent : base;
}

const DEFAULT_TARGETS = ['origin/main', 'main'];

const getMajorVersion = ({ info }: OpenAPIObject): string => info.version.split('.')[0]!;

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('openapi:check')
    .description(
      'List the changes of openapi.json; exits with 1 on a breaking change within a major version',
    )
    .option(
      '--against <ref or file>',
      'git ref or file to compare with (default: the merge base of HEAD and the target branch, or the ' +
        'first parent of HEAD on the target branch and without one)',
      readDocument,
    )
    .option(
      '--target <branch>',
      `branch that the changes will be merged to (default: ${DEFAULT_TARGETS.join(', or ')} if there is none)`,
    )
    .action((options: Options) => check(options));
  await runCommand(program, args);
}

interface Options {
  readonly against?: OpenAPIObject;
  readonly target?: string;
}

function check({ against, target }: Options): void {
  const base = against === undefined ? findBase(target) : undefined;
  const before = against ?? (base === undefined ? undefined : readDocument(base));
  if (before === undefined) {
    const hint = git('rev-parse', '--is-shallow-repository') === 'true' ? SHALLOW : '';
    process.stderr.write(`Skipped: there is no earlier commit to compare with${hint}.\n`);
    return;
  }
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

const SHALLOW = ' in this shallow clone; run git fetch --unshallow for the others';

if (isMain(import.meta)) await main(process.argv.slice(2));
