/** Writes the test of a module: once, then it belongs to the team. */
import type { DtoClass, Module, PlannedOperation, Resource } from '../model.js';
import { literal, object, quote, SourceFile } from './source.js';
import { toInvalid, toSample } from './samples.js';

export const getTestPath = (module: string): string => `test/${module}.databases.test.ts`;

/** @returns undefined if the module stores nothing */
export function writeTest(module: Module): string | undefined {
  const file = new SourceFile(getTestPath(module.name));
  const code = module.resources.map((resource) => writeResource(file, module, resource));
  if (code.length === 0) return undefined;
  const start = `const app = await ${file.use('startApp')}();\nafterAll(() => app.stop());`;
  return file.render([start, ...code].join('\n\n'));
}

function writeResource(file: SourceFile, module: Module, resource: Resource): string {
  const create = module.operations.find(
    ({ implementation }) =>
      implementation.kind === 'create' && implementation.resource === resource.name,
  ) as PlannedOperation;
  const request = module.classes.find(({ name }) => name === create.body!.schema.class)!;
  const unique = resource.columns.filter((column) => column.unique).map(({ name }) => name);
  const invalid = toInvalid(request);
  const { id } = resource;
  return `await ${file.use('describeResource')}(app, ${quote(create.path)}, ${object({
    create: writeSample(request, module, 1, unique),
    other: writeSample(request, module, 2, unique),
    invalid: invalid && literal({ [invalid.property]: [invalid.value] }),
    unique: unique.length === 0 ? undefined : literal(unique.map((property) => [property])),
    id: id.property === undefined || id.property === 'id' ? undefined : quote(id.property),
  })});`;
}

/** A function that returns a body; the values of unique properties depend on the number that it gets. */
function writeSample(
  request: DtoClass,
  { classes }: Module,
  seed: number,
  unique: readonly string[],
): string {
  const properties = Object.entries(toSample(request, classes, seed)).map(([name, value]) => [
    name,
    unique.includes(name) && typeof value === 'string' && !/^\W|\d-/.test(value)
      ? `\`${value.slice(0, 20)} \${n}\``
      : literal(value),
  ]);
  const code = object(Object.fromEntries(properties) as Record<string, string>);
  return `${code.includes('${n}') ? '(n)' : '()'} => (${code})`;
}
