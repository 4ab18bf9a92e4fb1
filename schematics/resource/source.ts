/** Reads and changes TypeScript sources. */
import ts from 'typescript';

/** An operation of a controller. */
export interface StubOperation {
  readonly method: string;
  /** Without the version, as in `pets/:petId`. */
  readonly path: string;
  /** It answers 501. */
  readonly isStub: boolean;
  /** Its `@Deprecated` and `@Stability`. */
  readonly lifecycle: readonly string[];
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

export interface ParsedController {
  readonly name: string;
  readonly operations: readonly StubOperation[];
}

const METHODS = ['Get', 'Post', 'Put', 'Patch', 'Delete'];

function parse(text: string): ts.SourceFile {
  return ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true);
}

/** The controllers of a source, with their operations. */
export function parseControllers(text: string): ParsedController[] {
  return parse(text)
    .statements.filter((statement) => ts.isClassDeclaration(statement))
    .flatMap((declaration) => {
      const base = getDecoratorArgument(declaration, 'Controller');
      if (base === undefined) return [];
      const operations = declaration.members.flatMap((member): StubOperation[] => {
        if (!ts.isMethodDeclaration(member)) return [];
        const method = METHODS.find((name) => getDecoratorArgument(member, name) !== undefined);
        if (method === undefined) return [];
        const path = [base, getDecoratorArgument(member, method)!].filter(Boolean).join('/');
        return [
          {
            method: method.toUpperCase(),
            path,
            isStub: member.body?.getText().includes(`ApiError('NOT_IMPLEMENTED'`) ?? false,
            lifecycle: getDecorators(member)
              .map((decorator) => decorator.getText())
              .filter((decorator) => /^@(Deprecated|Stability)\(/.test(decorator)),
            text: member.getText(),
            start: member.getFullStart(),
            end: member.end,
          },
        ];
      });
      return [{ name: declaration.name?.text ?? '', operations }];
    });
}

function getDecorators(node: ts.Node): readonly ts.Decorator[] {
  return ts.canHaveDecorators(node) ? (ts.getDecorators(node) ?? []) : [];
}

/** The text that a decorator is given, empty where it is given none; undefined where it is not there. */
function getDecoratorArgument(node: ts.Node, decoratorName: string): string | undefined {
  for (const { expression } of getDecorators(node)) {
    if (!ts.isCallExpression(expression) || expression.expression.getText() !== decoratorName)
      continue;
    const [argument] = expression.arguments;
    return argument !== undefined && ts.isStringLiteral(argument) ? argument.text : '';
  }
  return undefined;
}

export function removeMembers(text: string, members: readonly StubOperation[]): string {
  return members
    .toSorted((a, b) => b.start - a.start)
    .reduce((left, { start, end }) => left.slice(0, start) + left.slice(end), text);
}

/** Where an array of a source is. */
export interface ArrayPosition {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly elements: readonly string[];
  /** It is not there yet, and nothing else stands before its place. */
  readonly isFirst?: boolean;
}

/**
 * Finds the array that a constant holds, or that a property of a class decorator's argument holds.
 *
 * @param className the class that has the decorator; the last one of the source unless told
 */
export function findArray(text: string, name: string, className?: string): ArrayPosition {
  let found: ArrayPosition | undefined;
  const visit = (node: ts.Node): void => {
    if (className !== undefined && ts.isClassDeclaration(node) && node.name?.text !== className)
      return;
    if (
      (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) &&
      node.name.getText() === name &&
      node.initializer !== undefined &&
      ts.isArrayLiteralExpression(node.initializer)
    ) {
      const { initializer } = node;
      found ??= {
        name,
        start: initializer.getStart(),
        end: initializer.end,
        elements: initializer.elements.map((element) => element.getText()),
      };
    }
    ts.forEachChild(node, visit);
  };
  visit(parse(text));
  if (found !== undefined) return found;
  const properties = findModuleArgument(text);
  const end = properties.end;
  return { name, start: end, end, elements: [], isFirst: properties.isEmpty };
}

/** Where the argument of the `@Module` of a source takes one more property. */
function findModuleArgument(text: string): { end: number; isEmpty: boolean } {
  for (const statement of parse(text).statements) {
    for (const { expression } of getDecorators(statement)) {
      if (!ts.isCallExpression(expression) || expression.expression.getText() !== 'Module')
        continue;
      const [argument] = expression.arguments;
      if (argument === undefined || !ts.isObjectLiteralExpression(argument)) continue;
      const last = argument.properties.at(-1);
      return { end: last?.end ?? argument.getStart() + 1, isEmpty: last === undefined };
    }
  }
  throw new Error('The source has no @Module.');
}

/** Adds an element to an array, before another one where that is there. */
export function addElement(
  text: string,
  array: ArrayPosition,
  element: string,
  before?: string,
): string {
  const elements = array.elements.filter((known) => known !== element);
  const index = before === undefined ? -1 : elements.indexOf(before);
  elements.splice(index === -1 ? elements.length : index, 0, element);
  const list = `[${elements.join(', ')}]`;
  // Where it is not there yet.
  const comma = array.isFirst === true ? '' : ',';
  const replacement = array.start === array.end ? `${comma} ${array.name}: ${list}` : list;
  return text.slice(0, array.start) + replacement + text.slice(array.end);
}

/** Adds an import where the order of the paths has its place, unless it is there. */
export function addImport(text: string, name: string, path: string): string {
  const imports = parse(text).statements.filter((statement) => ts.isImportDeclaration(statement));
  const isKnown = (known: ts.ImportDeclaration): boolean =>
    (known.moduleSpecifier as ts.StringLiteral).text === path;
  if (imports.some(isKnown)) return text;
  const earlier = imports.filter(({ moduleSpecifier }) => {
    const known = (moduleSpecifier as ts.StringLiteral).text;
    return !known.startsWith('.') || known < path;
  });
  const end = earlier.at(-1)?.end ?? 0;
  return `${text.slice(0, end)}\nimport { ${name} } from '${path}';${text.slice(end)}`;
}

/** Sorts the imports and leaves out those that are not used, as an editor does. */
export function organizeImports(text: string): string {
  const file = '/file.ts';
  const options: ts.CompilerOptions = {
    noLib: true,
    noResolve: true,
    experimentalDecorators: true,
  };
  const service = ts.createLanguageService({
    getCompilationSettings: () => options,
    getScriptFileNames: () => [file],
    getScriptVersion: () => '1',
    getScriptSnapshot: (name) => (name === file ? ts.ScriptSnapshot.fromString(text) : undefined),
    getCurrentDirectory: () => '/',
    getDefaultLibFileName: () => 'lib.d.ts',
    fileExists: (name) => name === file,
    readFile: () => undefined,
  });
  const changes = service.organizeImports({ type: 'file', fileName: file }, {}, {});
  return changes
    .flatMap(({ textChanges }) => textChanges)
    .toSorted((a, b) => b.span.start - a.span.start)
    .reduce(
      (left, { span, newText }) =>
        left.slice(0, span.start) + newText + left.slice(span.start + span.length),
      text,
    );
}
