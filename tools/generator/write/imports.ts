/** Adds to generated code the imports that it needs. */
import { posix } from 'node:path';
import type { Module, Resource } from '../model.js';
import { toKebabCase, toPascalCase } from '../names.js';
import { DECLARATIONS, type Declarations } from '../declarations.js';

/** A file that is generated: not formatted yet. */
export interface SourceFile {
  /** In the project, such as `src/modules/pets/pets.service.ts`. */
  readonly path: string;
  readonly code: string;
}

/** Makes a file of its code, with the imports that {@link addImports} adds. */
export const toFile = (path: string, code: string, own?: Declarations): SourceFile => ({
  path,
  code: addImports(path, code, own),
});

/**
 * Returns the text of a file: its code, after the imports of the names that it uses.
 *
 * @param own what other files of the module declare
 */
export function addImports(path: string, code: string, own: Declarations = {}): string {
  const declarations = { ...DECLARATIONS, ...own };
  const isType = (name: string): boolean =>
    declarations[name]!.startsWith('type ') && !code.includes(`new ${name}(`);
  const toModule = (name: string): string => declarations[name]!.replace('type ', '');
  const names = getNames(code)
    .filter((name) => Object.hasOwn(declarations, name))
    .filter((name) => toModule(name) !== path.replace(/ts$/, 'js'));
  const imports = [...Map.groupBy(names, toModule)].map(([module, used]) => {
    const isOwn = /^(src|test)\//.test(module);
    const from = isOwn ? toRelative(path, module) : module;
    // A file that only types are imported from is not loaded.
    const areTypes = used.every(isType);
    const list = used.map((name) => (isType(name) && !areTypes ? `type ${name}` : name));
    const text = `import ${areTypes ? 'type ' : ''}{ ${list.join(', ')} } from '${from}';`;
    return { isOwn, from, text };
  });
  const sorted = imports.toSorted(
    (a, b) => Number(a.isOwn) - Number(b.isOwn) || (a.from < b.from ? -1 : 1),
  );
  return `${sorted.map(({ text }) => text).join('\n')}\n\n${code}`;
}

/** The names that code uses, sorted: not its texts and comments, and not the names of properties. */
export function getNames(code: string): string[] {
  const withoutTexts = code
    .replaceAll(/\/\*[^]*?\*\/|'(\\.|[^'\\])*'|"(\\.|[^"\\])*"/g, '')
    .replaceAll(/`[^`]*`/g, (template) => (template.match(/\$\{[^}]*\}/g) ?? []).join(' '));
  const names = withoutTexts.match(/(?<![\w.$])[A-Za-z]\w*(?!\w|\s*[!?]?:)/g) ?? [];
  return [...new Set(names)].toSorted();
}

function toRelative(from: string, to: string): string {
  const relative = posix.relative(posix.dirname(from), to);
  return relative.startsWith('.') ? relative : `./${relative}`;
}

/** The names of entities, without `Entity`: each resource is followed by its joins. */
export const getEntities = (resources: readonly Resource[]): string[] =>
  resources.flatMap(({ name, columns }) => [
    name,
    ...columns.flatMap(({ join }) => join?.name ?? []),
  ]);

/** What the files of a module declare for one another. */
export function getDeclarations({ name, classes, operations, resources }: Module): Declarations {
  const api = `src/modules/${name}/${name}.api.gen.js`;
  const prefix = toPascalCase(name);
  const queries = operations.map((operation) => `${toPascalCase(operation.name)}Query`);
  return {
    ...Object.fromEntries(queries.map((query) => [query, `type ${api}`])),
    ...Object.fromEntries(classes.map((dto) => [dto.name, `type ${api}`])),
    ...Object.fromEntries(
      getEntities(resources).map((each) => [
        `${each}Entity`,
        `src/modules/${name}/${toKebabCase(each)}.entity.js`,
      ]),
    ),
    [`${prefix}Api`]: api,
    [`${prefix}Controller`]: api,
    [`${prefix}Service`]: `src/modules/${name}/${name}.service.js`,
  };
}
