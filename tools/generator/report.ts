/** What a run tells: one line for each operation, each difference from the contract, and each file. */
import type { Module } from './model.js';

/** Returns the report as plain text, without colours. */
export function formatReport({
  operations,
  leftOut,
  notes,
}: Pick<Module, 'operations' | 'leftOut' | 'notes'>): string {
  const rows = [
    ...operations.map(({ method, path, implementation }) => [
      `${method.toUpperCase()} ${path}`,
      implementation.kind === 'stub' ? `stub: ${implementation.reason}` : 'implemented',
    ]),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ];
  const width = Math.max(...rows.map(([operation]) => operation!.length));
  const lines = rows.map(([operation, result]) => `${operation!.padEnd(width)}  ${result}`);
  if (notes.length === 0) return lines.join('\n');
  return [...lines, '', 'Differences from the contract:', ...notes.map((note) => `- ${note}`)].join(
    '\n',
  );
}
