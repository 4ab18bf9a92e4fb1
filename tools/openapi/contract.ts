/** Reads a published contract: an OpenAPI document 3.0 or 3.1, in JSON or YAML. */
import { relative } from 'node:path';
import {
  bundle,
  createConfig,
  lint,
  type NormalizedProblem,
  type RawUniversalConfig,
  ResolveError,
  YamlParseError,
} from '@redocly/openapi-core';
import type { OpenApiDocument } from './openapi.js';

/** Why a contract cannot be used: each line has the file, the JSON pointer and the reason. */
export class ContractError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}

/** What makes a document ambiguous or unusable for everyone. */
const RULES: RawUniversalConfig['rules'] = {
  struct: 'error',
  'no-unresolved-refs': 'error',
  'no-identical-paths': 'error',
  'operation-operationId': 'error',
  'operation-operationId-unique': 'error',
  'operation-parameters-unique': 'error',
  'path-parameters-defined': 'error',
};

/**
 * Reads a contract, with the files that it references.
 *
 * @param path relative to the working directory
 * @param config more rules of Redocly that the document must obey
 * @returns the document, in which each reference is to one of its own components
 * @throws {ContractError} with every problem
 */
export async function readContract(
  path: string,
  { plugins, rules }: Pick<RawUniversalConfig, 'plugins' | 'rules'> = {},
): Promise<OpenApiDocument> {
  const config = await createConfig({ plugins: plugins ?? [], rules: { ...RULES, ...rules } });
  try {
    const problems = await lint({ ref: path, config });
    if (problems.length > 0) throw new ContractError(problems.map(formatProblem));
    const { bundle: document } = await bundle({ ref: path, config });
    return document.parsed as OpenApiDocument;
  } catch (error) {
    if (error instanceof ContractError) throw error;
    if (error instanceof YamlParseError || error instanceof ResolveError)
      throw new ContractError([`${path}#/: ${error.message}`]);
    // Redocly throws a plain error if the document has no version, or one that it does not know.
    if (error instanceof Error && /specification|OpenAPI|document/i.test(error.message))
      throw new ContractError([`${path}#/: ${error.message}`]);
    throw error;
  }
}

function formatProblem({ location: [location], message }: NormalizedProblem): string {
  const { source, pointer = '#/' } = location!;
  return `${relative('.', source.absoluteRef)}${pointer}: ${message.replaceAll(/\s+/g, ' ')}`;
}
