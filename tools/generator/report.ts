/** What a run reports: a line for each operation, one for each kind of difference from the contract, and a sum. */
import type { Module, PlannedOperation } from './model.js';

const MAX_LENGTH = 300;

function describe(module: Module, operation: PlannedOperation): string {
  const { implementation, name, isPublic } = operation;
  if (operation.isCompleted === true) return 'yours';
  if (implementation.kind === 'stub')
    return `stub: ${implementation.reason}: complete ${name} in ${module.name}.service.ts`;
  const refused = implementation.refused.map((each) => `?${each}`).join(', ');
  const open = isPublic ? ', without a key' : '';
  return `implemented${open}${refused === '' ? '' : `; a request with ${refused} gets 501`}`;
}

/** The properties of responses that nothing fills. */
function findEmpty({ operations, resources }: Module): string[] {
  return resources.flatMap((resource) => {
    const sent = operations.flatMap(({ implementation: each }) =>
      'sent' in each && each.resource === resource ? (each.sent?.dto.properties ?? []) : [],
    );
    const { dto, id, columns } = resource;
    return dto.properties
      .filter(({ name, required }) => {
        const column = columns.find((each) => each.name === name);
        const isFilled =
          column?.filling !== undefined ||
          sent.some((each) => each.name === name && each.readOnly !== true);
        return name !== id.property && !required && !isFilled;
      })
      .map(({ name }) => `${dto.publishedName}.${name}`);
  });
}

/** The resources whose ids requests may repeat, although the service assigns them. */
function findIgnoredIds({ operations }: Module): string[] {
  return operations.flatMap(({ implementation: each, method, path }) => {
    if (
      !('sent' in each) ||
      each.sent === undefined ||
      (each.kind === 'create' && each.resource.id.byClient)
    )
      return [];
    const { id } = each.resource;
    const isRepeated = each.sent.dto.properties.some(
      ({ name, readOnly }) => name === id.property && readOnly !== true,
    );
    return isRepeated ? [`${method.toUpperCase()} ${path}`] : [];
  });
}

const toLine = (text: string): string => {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, ' ');
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH - 1)}…` : line;
};

/** Returns the report of a module. */
export function formatReport(module: Module): string {
  const { operations, leftOut, notes, resources } = module;
  const lines = [
    ...operations.map((each) => [
      `${each.method.toUpperCase()} ${each.path}`,
      describe(module, each),
    ]),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ];
  const width = Math.min(60, Math.max(...lines.map(([operation]) => operation!.length)));
  const stubs = operations.filter(
    ({ implementation, isCompleted }) => implementation.kind === 'stub' && isCompleted !== true,
  ).length;
  const empty = findEmpty(module);
  const ignored = findIgnoredIds(module);
  const differences = [
    ...notes.toLines(),
    ...(empty.length === 0
      ? []
      : [`no request fills them, so responses lack them: ${empty.join(', ')}`]),
    ...(ignored.length === 0 ? [] : [`the id of a body is ignored: ${ignored.join(', ')}`]),
    'errors have the body {code, message, status}, and invalid requests get 400',
  ];
  return [
    'Stored, and shown to every key with the scope. Nothing is sent, charged or called.',
    '',
    ...lines.map(([operation, text]) => `${operation!.padEnd(width)}  ${toLine(text!)}`),
    '',
    ...differences.map((each) => toLine(`Differs: ${each}`)),
    '',
    `${operations.length - stubs} implemented, ${stubs} ${stubs === 1 ? 'stub' : 'stubs'}, ${leftOut.length} left out; tables: ${resources.map(({ table }) => table).join(', ') || 'none'}.`,
  ].join('\n');
}
