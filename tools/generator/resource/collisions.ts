/** Keeps the names of a resource apart from the other names in the generated code. */
// With an import in the syntax of ES modules, Node would scan the compiler for its exports for a second.
import ts = require('typescript');

/** The names of a resource that are parts of identifiers in the templates. */
export interface ResourceNames {
  readonly Item: string;
  readonly Items: string;
  readonly item: string;
  readonly items: string;
}

/** The identifiers of a template. */
interface Identifiers {
  /** Those that depend on the resource, such as `NewPet` for `New<%= Item %>`. */
  readonly fromResource: ReadonlySet<string>;
  /** The others, with their nodes. */
  readonly fixed: ReadonlyMap<string, readonly ts.Identifier[]>;
}

/**
 * Returns names whose variables do not collide with other identifiers of the templates: the variables of
 * `apps` are called `appItem` and `appsRepository`, because `app` is a variable of the tests.
 */
export function renameVariables<Names extends ResourceNames>(
  names: Names,
  templates: readonly string[],
): Names {
  const fixed = new Set(templates.flatMap((template) => [...parse(template, names).fixed.keys()]));
  const isTaken = (name: string): boolean => fixed.has(name) || isReservedWord(name);
  return {
    ...names,
    item: isTaken(names.item) ? `${names.item}Item` : names.item,
    items: isTaken(names.items) ? `${names.items}Repository` : names.items,
  };
}

/**
 * Returns the identifiers of the resource that a template uses for something else and does not import, such
 * as `Promise`; {@link aliasImports} makes room for the others.
 */
export function findCollisions(template: string, names: ResourceNames): string[] {
  const { fromResource, fixed } = parse(template, names);
  return [...fromResource].filter(
    (name) => fixed.has(name) && !fixed.get(name)!.some(isImportedName),
  );
}

/** Renames the imports of a template that collide with the resource, as in `Post as NestPost`. */
export function aliasImports(template: string, names: ResourceNames): string {
  const { fromResource, fixed } = parse(template, names);
  return [...fromResource]
    .flatMap((name) => {
      const identifiers = fixed.get(name) ?? [];
      const imported = identifiers.find(isImportedName);
      if (imported === undefined) return [];
      const alias = `${getPrefix(imported)}${name[0]!.toUpperCase()}${name.slice(1)}`;
      return identifiers.map((identifier) => ({
        start: identifier.getStart(),
        end: identifier.end,
        text: identifier === imported ? `${name} as ${alias}` : alias,
      }));
    })
    .toSorted((a, b) => b.start - a.start)
    .reduce(
      (rest, { start, end, text }) => rest.slice(0, start) + text + rest.slice(end),
      template,
    );
}

/** Whether a name cannot be the name of a variable in a module. */
export function isReservedWord(name: string): boolean {
  const token = ts.createScanner(ts.ScriptTarget.Latest, false, undefined, name).scan();
  return token >= ts.SyntaxKind.FirstReservedWord && token <= ts.SyntaxKind.LastFutureReservedWord;
}

const isImportedName = (identifier: ts.Identifier): boolean =>
  ts.isImportSpecifier(identifier.parent);

/** Returns the start of the alias of an import: where the import is from. */
function getPrefix(imported: ts.Identifier): string {
  const declaration = ts.findAncestor(imported, ts.isImportDeclaration)!;
  const { text: path } = declaration.moduleSpecifier as ts.StringLiteral;
  if (path.startsWith('.')) return 'Platform';
  return path.startsWith('@nestjs/') ? 'Nest' : path === 'typeorm' ? 'TypeOrm' : 'Library';
}

/** A tag of a template, with the name that it inserts if it is `Item`, `Items`, `item` or `items`. */
const TAG = /<%(?:= (Items?|items?) )?[\s\S]*?%>/g;
/** What `parse` replaces such a tag with; see there. */
const PLACEHOLDER = /\$(Items?|items?)\$+/g;

/** The syntax trees of the templates, which are the same for all names. */
const sources = new Map<string, ts.SourceFile>();

function parse(template: string, names: ResourceNames): Identifiers {
  let tree = sources.get(template);
  if (tree === undefined) {
    tree = parseTemplate(template);
    sources.set(template, tree);
  }
  const fromResource = new Set<string>();
  const fixed = new Map<string, ts.Identifier[]>();
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) {
      const { text } = node;
      if (!text.includes('$')) fixed.set(text, [...(fixed.get(text) ?? []), node]);
      const name = text.replaceAll(PLACEHOLDER, (_all, key: keyof ResourceNames) => names[key]);
      // Members of classes and objects collide with nothing.
      const isMember = ts.isPropertyAccessExpression(node.parent) && node.parent.name === node;
      if (name !== text && !name.includes('$') && !isMember && !ts.isMethodDeclaration(node.parent))
        fromResource.add(name);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return { fromResource, fixed };
}

function parseTemplate(template: string): ts.SourceFile {
  // A tag that inserts something becomes part of an identifier, and others become spaces. They keep their
  // lengths, so that a position in the syntax tree is one in the template.
  const source = template.replace(TAG, (tag: string, name: string | undefined) =>
    name !== undefined
      ? `$${name}`.padEnd(tag.length, '$')
      : tag.startsWith('<%=')
        ? '$'.repeat(tag.length)
        : tag.replaceAll(/[^\n]/g, ' '),
  );
  return ts.createSourceFile('template.ts', source, ts.ScriptTarget.Latest, true);
}
