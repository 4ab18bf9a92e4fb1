/** Reads and applies OpenAPI Overlays 1.0 and 1.1 (https://spec.openapis.org/overlay/v1.1.0.html). */
import { readFile } from 'node:fs/promises';
import { exec } from 'jsonpath-rfc9535';
import { parse } from 'yaml';
import { ContractError, type OpenApiDocument, readDocument } from './read/document.js';
import { get, isObject, items, type Json } from './read/json.js';

/** What an overlay does to the values that a JSONPath selects (RFC 9535). */
export interface Action {
  readonly target: string;
  readonly description?: string;
  readonly update?: unknown;
  readonly remove?: boolean;
  readonly copy?: string;
}

/** The most characters of an overlay, which is written by hand. */
const MAX_LENGTH = 1_000_000;

/**
 * Reads a document, and applies an overlay to it, if there is one.
 *
 * @throws {ContractError} if one of them cannot be used
 */
export async function readContractFile(path: string, overlay?: string): Promise<OpenApiDocument> {
  const document = await readDocument(path);
  if (overlay === undefined) return document;
  return { ...document, root: await applyOverlay(document.root, overlay) };
}

/**
 * Applies an overlay to a document, which stays as it is.
 *
 * @param path of the overlay, in JSON or YAML
 * @throws {ContractError} if it is not an overlay, or an action selects nothing: each by its number
 */
export async function applyOverlay(root: Json, path: string): Promise<Json> {
  const problems: string[] = [];
  const changed = applyActions(
    root,
    items(get(await readOverlay(path), 'actions')),
    (reason, index) => problems.push(`${path}#/actions/${index}: ${reason}`),
  );
  if (problems.length > 0) throw new ContractError(problems);
  return changed;
}

/** Applies actions one after another, to a copy. @param report is called for each that cannot be applied */
export function applyActions(
  root: Json,
  actions: readonly unknown[],
  report: (reason: string, index: number) => void,
): Json {
  // The root can be selected like any other value.
  const holder: Holder = { root: toCopy(root) };
  for (const [index, action] of actions.entries())
    try {
      apply(holder, action);
    } catch (error) {
      report((error as Error).message.split('\n')[0]!.slice(0, 300), index);
    }
  return holder.root as Json;
}

async function readOverlay(path: string): Promise<unknown> {
  let overlay: unknown;
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > MAX_LENGTH) throw new Error(`longer than ${MAX_LENGTH} characters`);
    overlay = parse(text);
  } catch (error) {
    throw new ContractError([`${path}#/: ${(error as Error).message.split('\n')[0]}`]);
  }
  if (!/^1\.[01](\.|$)/.test(String(get(overlay, 'overlay'))))
    throw new ContractError([`${path}#/overlay: must be 1.0 or 1.1`]);
  if (items(get(overlay, 'actions')).length === 0)
    throw new ContractError([`${path}#/actions: must be a list`]);
  return overlay;
}

interface Holder {
  root: unknown;
}

/** The place of a value: the object or array that has it. */
interface Place {
  readonly parent: Record<string | number, unknown>;
  readonly key: string | number;
}

/** Returns the places that a JSONPath selects. */
export function select(holder: Holder, target: string): Place[] {
  const places: Place[] = [];
  exec(holder.root as never, target, (_value, path) => {
    const [key, ...above] = ['root', ...path].toReversed();
    const parent = above
      .toReversed()
      .reduce<unknown>((value, each) => (value as Place['parent'])[each], holder);
    places.push({ parent: parent as Place['parent'], key: key! });
  });
  return places;
}

function apply(holder: Holder, action: unknown): void {
  const target = get(action, 'target');
  if (typeof target !== 'string') throw new Error('target must be a JSONPath');
  const places = select(holder, target);
  if (places.length === 0) throw new Error(`${target.slice(0, 200)} selects nothing`);
  if (get(action, 'remove') === true) {
    // From the last, because those after a removed item have other indexes.
    for (const { parent, key } of places.toReversed())
      if (Array.isArray(parent)) parent.splice(key as number, 1);
      else Reflect.deleteProperty(parent, key);
    return;
  }
  const copy = get(action, 'copy');
  const sources = typeof copy === 'string' ? select(holder, copy) : [];
  if (copy !== undefined && sources.length !== 1) throw new Error('copy must select one value');
  const [source] = sources;
  const update = source === undefined ? get(action, 'update') : source.parent[source.key];
  if (update === undefined) throw new Error('has none of update, remove and copy');
  for (const { parent, key } of places) parent[key] = merge(parent[key], update);
}

/** A copy without what aliases of YAML share, which an action would change everywhere. */
const toCopy = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;

/** Objects are merged, arrays get what is added, and other values are replaced. */
function merge(value: unknown, update: unknown): unknown {
  if (Array.isArray(value)) return [...(value as unknown[]), ...[toCopy(update)].flat()];
  if (!isObject(value) || !isObject(update)) return toCopy(update);
  const names = Object.entries(update).map(([name, each]) => [name, merge(get(value, name), each)]);
  return { ...value, ...(Object.fromEntries(names) as Json) };
}
