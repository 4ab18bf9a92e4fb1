/** What a run tells: one line for each operation, and one for each kind of difference from the contract. */
import type { Implementation, Module, StubOperation } from './model.js';

/** How much of a line is printed, in characters, and how many of the places of a difference. */
const MAX_LENGTH = 300;
const MAX_PLACES = 3;

/** Says that an operation is implemented, and how many values its team has to decide. */
function describe(implementation: Exclude<Implementation, StubOperation>): string {
  const { columns } = implementation.resource;
  const count = columns.filter(({ assigned }) => assigned === 'to decide').length;
  const isDecided = implementation.kind !== 'create' || count === 0;
  return isDecided
    ? 'implemented'
    : `implemented, ${count} value${count === 1 ? '' : 's'} to decide`;
}

/** Returns the report as plain text, without colours. */
export function formatReport({
  operations,
  leftOut,
  notes,
}: Pick<Module, 'operations' | 'leftOut' | 'notes'>): string {
  const rows = [
    ...operations.map(({ method, path, implementation }) => [
      `${method.toUpperCase()} ${path}`,
      implementation.kind === 'stub' ? `stub: ${implementation.reason}` : describe(implementation),
    ]),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ];
  const width = Math.min(100, Math.max(...rows.map(([operation]) => operation!.length)));
  const differences = notes.entries().map(([text, places]) => {
    const shown = places.slice(0, MAX_PLACES).join(', ');
    const more = places.length - MAX_PLACES;
    return `- ${shown}${more > 0 ? ` and ${more} more` : ''}${shown === '' ? '' : ': '}${text}`;
  });
  return [
    ...rows.map(([operation, result]) => `${operation!.padEnd(width)}  ${result}`),
    ...(differences.length > 0 ? ['', 'Differences from the contract:'] : []),
    ...differences,
  ]
    .map((line) => (line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line))
    .join('\n');
}
