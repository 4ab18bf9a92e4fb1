/** Formats the report of a run: a line for each operation and each kind of difference, and totals. */
import {
  type ImplementedOperation,
  isGiven,
  type Module,
  type PlannedOperation,
  type Property,
  type Schema,
  toPlace,
} from './model.js';
import { toBareName } from './names.js';
import { isSent } from './plan/columns.js';
import { SORTS } from './plan/operations.js';

const MAX_LENGTH = 300;

function describe(module: Module, operation: PlannedOperation): string {
  const { implementation, name, isPublic } = operation;
  if (operation.isCompleted === true) return 'yours';
  if (operation.todo !== undefined) return `to do: ${operation.todo}`;
  if (implementation.kind === 'stub')
    return `stub: ${implementation.reason}: complete ${name} in ${module.name}.service.ts`;
  const refused = implementation.refused.map((each) => `?${each}`).join(', ');
  const open = isPublic ? ', without a key' : '';
  return `implemented${open}${refused === '' ? '' : `; a request with ${refused} gets 501`}`;
}

/** Returns the properties of responses that never have a value. */
function findEmpty({ operations, resources }: Module): string[] {
  return resources.flatMap((resource) => {
    const sent = operations.flatMap(({ implementation: each }) =>
      each.kind !== 'stub' && each.resource === resource ? getSent(each) : [],
    );
    const { dto, id, columns } = resource;
    const filled = new Set([
      id.property,
      ...columns.filter(({ filling }) => filling !== undefined).map(({ name }) => name),
      ...sent.filter(({ readOnly }) => readOnly !== true).map(({ name }) => name),
    ]);
    return dto.properties
      .filter(({ name, required }) => !required && !filled.has(name))
      .map(({ name }) => `${dto.publishedName}.${name}`);
  });
}

const getSent = (each: ImplementedOperation): readonly Property[] =>
  ('sent' in each && each.sent?.dto.properties) || [];

const LEAST = ['minLength', 'minimum', 'exclusiveMinimum', 'minItems'] as const;
const MOST = ['maxLength', 'maximum', 'exclusiveMaximum', 'maxItems'] as const;

/** Returns whether a request can store a value that the schema of the response does not allow. */
function isLooser(sent: Schema, shown: Schema, depth = 0): boolean {
  if (sent.class === shown.class && sent.class !== undefined) return false;
  const exceeds = (value: unknown): boolean => !(shown.enum as unknown[]).includes(value);
  return (
    (shown.enum !== undefined && (sent.enum?.some(exceeds) ?? sent.type !== 'boolean')) ||
    LEAST.some((key) => shown[key] !== undefined && !(sent[key]! >= shown[key])) ||
    MOST.some((key) => shown[key] !== undefined && !(sent[key]! <= shown[key])) ||
    (shown.pattern ?? sent.pattern) !== sent.pattern ||
    (shown.multipleOf ?? sent.multipleOf) !== sent.multipleOf ||
    (depth < 9 && isLooser(sent.items ?? {}, shown.items ?? {}, depth + 1)) ||
    (sent.class?.properties ?? []).some((each) => {
      const other = shown.class?.properties.find(({ name }) => name === each.name);
      const isLess = other?.required === true && !isGiven(each);
      const isNull = each.nullable === true && other?.nullable !== true;
      return isLess || isNull || (depth < 9 && isLooser(each, other ?? {}, depth + 1));
    })
  );
}

/** Finds the names in which implemented operations differ from the contract, by the text of the line. */
const DIFFERENCES: Readonly<Record<string, (each: ImplementedOperation) => readonly string[]>> = {
  'not sent in lists, whose next page is in the Link header': (each) =>
    (each.kind === 'list' && each.envelope?.missing) || [],
  'sorts only pages by offset or number, by an enum of properties': (each) =>
    each.refused.filter((name) => each.kind === 'list' && SORTS.has(toBareName(name))),
  'bodies may contain what the schema of the response does not allow': (each) =>
    getSent(each)
      .filter((sent) => {
        const shown = each.resource.dto.properties.find(({ name }) => name === sent.name);
        return isSent(sent) && isLooser(sent, shown ?? {});
      })
      .map(({ name }) => name),
  'a body with what is readOnly gets 400': (each) =>
    getSent(each).flatMap(({ name, readOnly }) => (readOnly === true ? [name] : [])),
  'the id of a body is ignored': (each) =>
    each.kind === 'create' && each.resource.id.byClient
      ? []
      : getSent(each).flatMap(({ name, readOnly }) =>
          name === each.resource.id.property && readOnly !== true ? [name] : [],
        ),
};

const findDifferences = ({ operations }: Module): string[] =>
  Object.entries(DIFFERENCES).flatMap(([text, find]) => {
    const places = operations.flatMap((each) => {
      const { implementation } = each;
      const names = implementation.kind === 'stub' ? [] : find(implementation);
      return names.length === 0 ? [] : [`${toPlace(each)} ${names.join(', ')}`];
    });
    return places.length === 0 ? [] : [`${text}: ${places.join('; ')}`];
  });

const toLine = (text: string): string => {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, ' ');
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH - 1)}…` : line;
};

/** Returns the report of a module. */
export function formatReport(module: Module): string {
  const { operations, leftOut, notes, resources } = module;
  const lines = [
    ...operations.map((each) => [toPlace(each), describe(module, each)]),
    ...leftOut.map(({ operation, reason }) => [operation, `left out: ${reason}`]),
  ];
  const width = Math.min(60, Math.max(...lines.map(([operation]) => operation!.length)));
  const count = (pattern: RegExp): number => lines.filter(([, text]) => pattern.test(text!)).length;
  const [todos, stubs] = [count(/^to do: /), count(/^stub: /)];
  const empty = findEmpty(module).join(', ');
  const differences = [
    ...notes.toLines(),
    ...(empty === '' ? [] : [`no request fills them, so responses lack them: ${empty}`]),
    ...findDifferences(module),
    'errors have the body {code, message, status}, and invalid requests get 400',
  ];
  return [
    'Stored, and shown to every key with the scope. Nothing is sent, charged or called.',
    '',
    ...lines.map(([operation, text]) => `${operation!.padEnd(width)}  ${toLine(text!)}`),
    '',
    ...differences.map((each) => toLine(`Differs: ${each}`)),
    '',
    `${operations.length - stubs - todos} implemented, ${todos === 0 ? '' : `${todos} to do, `}${stubs} ${stubs === 1 ? 'stub' : 'stubs'}, ${leftOut.length} left out; tables: ${resources.map(({ table }) => table).join(', ') || 'none'}.`,
  ].join('\n');
}
