/** Reads a document of OpenAPI 3.0 to 3.2, in JSON or YAML, with the files that it references, as OpenAPI 3.1. */
import { realpath } from 'node:fs/promises';
import { dirname, relative, resolve as toAbsolute } from 'node:path';
import {
  BaseResolver,
  bundle,
  createConfig,
  type Document,
  lint,
  type NormalizedProblem,
  ResolveError,
  type Source,
} from '@redocly/openapi-core';
import { upgrade } from '@scalar/openapi-upgrader';
import { ContractError } from '../model.js';
import type { Json } from './json.js';

/**
 * Reads a document, and bundles referenced files into its components.
 *
 * @param path relative to the working directory
 * @throws {ContractError} if the document is not OpenAPI 3.0 to 3.2, cannot be read, or has an unresolved reference
 */
export async function readDocument(path: string): Promise<Json> {
  // Redocly's style rules are off.
  const config = await createConfig({ rules: { struct: 'error', 'no-unresolved-refs': 'error' } });
  try {
    const externalRefResolver = await FolderResolver.create(path);
    const problems = await lint({ ref: path, config, externalRefResolver });
    const fatal = problems.filter(isFatal);
    if (fatal.length > 0) throw new ContractError(fatal.map(formatProblem));
    const { bundle: document } = await bundle({ ref: path, config, externalRefResolver });
    return toLatest(path, document.parsed as Json);
  } catch (error) {
    if (error instanceof ContractError) throw error;
    // Redocly throws several classes of errors for unreadable files and unknown versions.
    throw new ContractError([`${path}#/: ${(error as Error).message.split('\n')[0]}`]);
  }
}

/** Returns a document of OpenAPI 3.0 as 3.1, and others unchanged. */
export function toLatest(path: string, root: Json): Json {
  if (root['swagger'] !== undefined)
    throw new ContractError([
      `${path}#/swagger: Swagger 2.0 is not supported. Convert it: npx --yes swagger2openapi@7 ${path} --outfile ${path.replace(/(\.openapi)?(\.\w+)?$/, '.openapi.json')}`,
    ]);
  const version = String(root['openapi']);
  if (!/^3\.[012](\.|$)/.test(version))
    throw new ContractError([`${path}#/openapi: must be 3.0, 3.1 or 3.2, not ${version}`]);
  return version.startsWith('3.0') ? upgrade(structuredClone(root), '3.1') : root;
}

/** Reads files of one folder, and rejects those that YAML aliases make too large. */
class FolderResolver extends BaseResolver {
  private constructor(private readonly folder: string) {
    super();
  }

  static async create(path: string): Promise<FolderResolver> {
    return new FolderResolver(dirname(await realpath(toAbsolute(path))));
  }

  override async loadExternalRef(path: string): Promise<Source> {
    const isFile = !/^[a-z][a-z\d+.-]+:\/\//i.test(path);
    const file = isFile ? await realpath(path).catch(() => path) : path;
    if (!isFile || relative(this.folder, file).startsWith('..'))
      throw new ResolveError(
        new Error(`Refused ${path}: references are to files in the folder of the document.`),
      );
    return super.loadExternalRef(path);
  }

  override parseDocument(source: Source, isRoot?: boolean): Document {
    const document = super.parseDocument(source, isRoot);
    if (countNodes(document.parsed) > MAX_NODES)
      throw new ContractError([
        `${relative('.', source.absoluteRef)}#/: too large with its aliases`,
      ]);
    return document;
  }
}

/** The maximum number of values of a document, far above that of published ones. */
const MAX_NODES = 10_000_000;

/** Counts the values of a document with its aliases expanded; infinite if one contains itself. */
function countNodes(value: unknown, counts = new Map<object, number>()): number {
  if (typeof value !== 'object' || value === null) return 1;
  const known = counts.get(value);
  if (known !== undefined) return known;
  counts.set(value, Infinity);
  const count = Object.values(value).reduce<number>(
    (sum, each) => sum + countNodes(each, counts),
    1,
  );
  counts.set(value, count);
  return count;
}

/** Returns whether a problem is an unresolved reference, or a path or operation that is not an object. */
function isFatal({ ruleId, message, location: [location] }: NormalizedProblem): boolean {
  // A value in a mapping may be the name of a schema, and one in an extension anything.
  if (/\/(discriminator\/mapping|x-[^/]*)(\/|$)/.test(location?.pointer ?? '')) return false;
  const isOutline = /^#\/(paths(\/[^/]+){0,2})?$/.test(location?.pointer ?? '#/');
  return ruleId !== 'struct' || (isOutline && message.startsWith('Expected type'));
}

function formatProblem({ location: [location], message }: NormalizedProblem): string {
  const { source, pointer = '#/' } = location!;
  return `${relative('.', source.absoluteRef)}${pointer}: ${message.replaceAll(/\s+/g, ' ')}`;
}
