/** Compares the operations that are implemented of public contracts with a committed list, so that none is lost unseen. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { getUnsupported } from '../generator/report.js';
import { planDocument, type PublicDocument } from './documents.js';

/** What follows an operation that is not implemented any more. */
const LOST = ' -- lost:';

/** Lists what is implemented of a document: a line with the provider and its SHA-256, and a line for each operation. */
export async function listImplemented({ provider, path }: PublicDocument): Promise<string[]> {
  const planned = await planDocument(path);
  const operations = (typeof planned === 'string' ? [] : planned).filter(
    ({ implementation }) => implementation.kind !== 'stub',
  );
  return [
    createHash('sha256').update(readFileSync(path)).digest('hex'),
    ...operations.map((each) => {
      const without = getUnsupported(each).map((name) => ` without ${name}`);
      return `${each.method.toUpperCase()} ${each.path}${without.join('')}`;
    }),
  ].map((line) => `${provider} ${line}`);
}

export const getProviders = (list: string): string[] => [
  ...new Set(
    list
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]!),
  ),
];

/**
 * Compares a list with the operations that are implemented.
 *
 * @returns the problems, and the list with what is implemented besides: no line is removed
 */
export function compareList(
  list: string,
  actual: readonly string[],
): { readonly problems: readonly string[]; readonly merged: string } {
  const reasons = new Map(
    list
      .trim()
      .split('\n')
      .map((line) => {
        const [operation = '', reason = ''] = line.split(LOST);
        return [operation, reason.trim()];
      }),
  );
  const lost = [...reasons].filter(([operation]) => !actual.includes(operation));
  const lines = lost.map(([operation, reason]) =>
    reason === '' ? operation : `${operation}${LOST} ${reason}`,
  );
  return {
    problems: [
      ...lost
        .filter(([, reason]) => reason === '')
        .map(([operation]) => `${operation}: add "${LOST.trim()}" and the reason to its line`),
      ...actual
        .filter((operation) => reasons.get(operation) !== '')
        .map((operation) => `${operation}: is new; npm run corpus -- --update adds it`),
    ],
    merged: `${[...actual, ...lines].toSorted().join('\n')}\n`,
  };
}
