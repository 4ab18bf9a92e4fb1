/** What a run tells: one line for each operation, one for each kind of difference from the contract, and a sum. */
import type { Module, PlannedOperation } from './model.js';

/** How much of a line is printed, in characters, and how many of the places of a difference. */
const MAX_LENGTH = 300;
const MAX_PLACES = 3;

/** What to change in a contract, by the reason for a stub; other operations are written by hand. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/x-resource/, 'say with x-resource whether it stores its body'],
  [
    /query parameter .* no known effect/,
    'name query parameters as the properties that they select',
  ],
  [/query parameter/, 'make query parameters text, numbers, or lists with explode: true'],
  [/^the (header|cookie) .* is required/, 'make the parameter optional'],
  [
    /^nothing says what .* contains/,
    'make the property optional or nullable, or give it a default',
  ],
  [/^the body is \w+\/|\bthe form\b/, 'add a body of application/json'],
  [/^the response is [\w*]+\//, 'add a response of application/json'],
  [
    /no body that could be stored|object with a name/,
    'use an object with a name in components/schemas',
  ],
  [
    /nothing of what the request|another object than|response has no resource/,
    'return the resource',
  ],
  [/^the status/, 'respond with 201'],
  [
    /^no operation creates|creates other objects/,
    'add a POST to the collection that returns the resource',
  ],
  [
    /may differ|stores another|does not store/,
    'use the same schema for the property in all bodies',
  ],
  [
    /^nothing says who assigns|^no response tells the ids/,
    'return the resource, or require its id in the body',
  ],
  [/creates such objects already/, 'return a schema of its own'],
  [/more than one parameter|no text separates/, 'shorten the path to one parent'],
];

/** What to change in a contract so that an operation is not a stub for a reason. */
export const getRemedy = (reason: string): string =>
  REMEDIES.find(([pattern]) => pattern.test(reason))?.[1] ?? 'write it by hand';

/** How many values of a new row the team has to decide. */
export function countUndecided({ implementation: each }: PlannedOperation): number {
  if (each.kind !== 'create') return 0;
  return each.resource.columns.filter(({ assigned }) => assigned === 'to decide').length;
}

/** The parameters that an operation does not support: a request with one gets 501. */
export const getUnsupported = ({
  refused,
  unsupportedQuery,
  unsupportedHeaders,
}: PlannedOperation): string[] => [
  ...[...refused, ...unsupportedQuery.map(({ name }) => name)].map((name) => `?${name}`),
  ...unsupportedHeaders,
];

function describe(operation: PlannedOperation): string {
  const { implementation } = operation;
  if (implementation.kind === 'stub')
    return `stub: ${implementation.reason} (${getRemedy(implementation.reason)})`;
  const count = countUndecided(operation);
  const values = `${count} value${count === 1 ? '' : 's'} to decide`;
  const names = getUnsupported(operation);
  const without = names.length === 0 ? '' : ` without ${names.join(', ')}`;
  return `implemented${without}${count === 0 ? '' : `, ${values}`}`;
}

/** The line that sums up the operations. */
function sumUp(
  operations: readonly PlannedOperation[],
  results: ReadonlyMap<string, string>,
  leftOut: number,
): string {
  const others = operations.filter(({ name }) => !results.has(name));
  const stubs = others.flatMap(({ implementation: each }) =>
    each.kind === 'stub' ? getRemedy(each.reason) : [],
  );
  const made = others.filter(({ implementation: each }) => each.kind !== 'stub');
  const undecided = made.filter((each) => countUndecided(each) > 0);
  const without = made.filter(
    (each) => getUnsupported(each).length > 0 && !undecided.includes(each),
  );
  const names = [...new Set(without.flatMap(getUnsupported))].join(', ');
  const counts = [
    `${made.length - undecided.length - without.length} right`,
    without.length > 0 && `${without.length} without ${names}`,
    undecided.length > 0 && `${undecided.length} with values to decide`,
    `${stubs.length} stubs`,
    results.size > 0 && `${results.size} of yours or to do`,
    leftOut > 0 && `${leftOut} left out`,
  ].filter((each) => each !== false);
  const [remedy] = [...Map.groupBy(stubs, (each) => each)].toSorted(
    ([, a], [, b]) => b.length - a.length,
  );
  const hint = remedy && `. The most frequent remedy, of ${remedy[1].length}: ${remedy[0]}`;
  return `${operations.length + leftOut} operations: ${counts.join(', ')}${hint ?? ''}.`;
}

/**
 * Returns the report as plain text, without colours.
 *
 * @param results what it says instead of what is planned, by the names of operations
 */
export function formatReport(
  { operations, leftOut, notes }: Pick<Module, 'operations' | 'leftOut' | 'notes'>,
  results: ReadonlyMap<string, string> = new Map(),
): string {
  const rows = [
    ...operations.map((operation) => [
      `${operation.method.toUpperCase()} ${operation.path}`,
      results.get(operation.name) ?? describe(operation),
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
    '',
    sumUp(operations, results, leftOut.length),
  ]
    .map((line) => (line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line))
    .join('\n');
}
