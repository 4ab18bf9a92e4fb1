/** Reads and edits TypeScript sources. */
import type { Tree } from '@angular-devkit/schematics';
import type { Options as PrettierOptions } from 'prettier';
// With an import in the syntax of ES modules, Node would scan the compiler for its exports for a second.
import ts = require('typescript');

/** An operation of a controller. */
export interface ParsedOperation {
  readonly method: string;
  /** Without the version, as in `pets/:petId`. */
  readonly path: string;
  readonly version: string;
  /** The operation returns 501. */
  readonly isStub: boolean;
  /** Its `@Deprecated` and `@Stability` decorators. */
  readonly lifecycle: readonly string[];
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

export interface ParsedController {
  readonly name: string;
  readonly operations: readonly ParsedOperation[];
}

const METHODS = ['Get', 'Post', 'Put', 'Patch', 'Delete'];

/** The properties of `@Feature` in the order in which the modules declare them. */
const FEATURE_PROPERTIES = [
  'tag',
  'imports',
  'entities',
  'migrations',
  'controllers',
  'providers',
  'exports',
];

function parse(text: string): ts.SourceFile {
  return ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true);
}

/** Returns the controllers that a source declares, with their operations. */
export function parseControllers(text: string): ParsedController[] {
  return parse(text)
    .statements.filter((statement) => ts.isClassDeclaration(statement))
    .flatMap((declaration) => {
      const controller = getDecoratorCall(declaration, 'Controller');
      if (controller === undefined) return [];
      const { path: base = '', version = '1' } = getControllerOptions(controller);
      const operations = declaration.members.flatMap((member): ParsedOperation[] => {
        if (!ts.isMethodDeclaration(member)) return [];
        const method = METHODS.find((name) => getDecoratorArgument(member, name) !== undefined);
        if (method === undefined) return [];
        const path = [base, getDecoratorArgument(member, method)!].filter(Boolean).join('/');
        return [
          {
            method: method.toUpperCase(),
            path,
            version: getDecoratorArgument(member, 'Version') ?? version,
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

function getDecoratorCall(node: ts.Node, name: string): ts.CallExpression | undefined {
  return (
    getDecorators(node)
      .map(({ expression }) => expression)
      .filter((expression) => ts.isCallExpression(expression))
      // A generated import may have a prefix; see collisions.ts.
      .find(({ expression }) => expression.getText().replace(/^(Nest|Platform)/, '') === name)
  );
}

/** Returns the strings in the argument of `@Controller`: a path, or an object with the path and the version. */
function getControllerOptions({ arguments: [argument] }: ts.CallExpression): {
  path?: string;
  version?: string;
} {
  if (argument === undefined) return {};
  if (ts.isStringLiteral(argument)) return { path: argument.text };
  if (!ts.isObjectLiteralExpression(argument)) return {};
  return Object.fromEntries(
    argument.properties.flatMap((property) =>
      ts.isPropertyAssignment(property) && ts.isStringLiteral(property.initializer)
        ? [[property.name.getText(), property.initializer.text]]
        : [],
    ),
  );
}

/** Returns the string passed to a decorator, or an empty one; undefined if the node lacks the decorator. */
function getDecoratorArgument(node: ts.Node, name: string): string | undefined {
  const call = getDecoratorCall(node, name);
  if (call === undefined) return undefined;
  const [argument] = call.arguments;
  return argument !== undefined && ts.isStringLiteral(argument) ? argument.text : '';
}

/** Removes operations from the source of their controller. */
export function removeOperations(text: string, operations: readonly ParsedOperation[]): string {
  return operations
    .toSorted((a, b) => b.start - a.start)
    .reduce((rest, { start, end }) => rest.slice(0, start) + rest.slice(end), text);
}

/**
 * Adds an element to an array, unless it contains the element.
 *
 * @param name the constant that holds the array, or the property of `@Feature`, which is added if it is
 *   missing
 */
export function addElement(text: string, name: string, element: string): string {
  const array = findArray(text, name);
  if (array === undefined) return addFeatureProperty(text, name, `[${element}]`);
  const { elements } = array;
  if (elements.some((existing) => existing.getText() === element)) return text;
  const last = elements.at(-1);
  const position = last?.end ?? array.getStart() + 1;
  const addition = last === undefined ? element : `, ${element}`;
  return text.slice(0, position) + addition + text.slice(position);
}

/** Removes an element, or the first one that meets a condition, from an array; see {@link addElement}. */
export function removeElement(
  text: string,
  name: string,
  element: string | ((element: string) => boolean),
): string {
  const elements = findArray(text, name)?.elements ?? ts.factory.createNodeArray();
  const isElement = typeof element === 'string' ? (other: string) => other === element : element;
  const index = elements.findIndex((existing) => isElement(existing.getText()));
  const [node, previous, next] = [elements[index], elements[index - 1], elements[index + 1]];
  if (node === undefined) return text;
  // With one of the commas, and without the comments before it.
  const start = next === undefined && previous !== undefined ? previous.end : node.getStart();
  const end = next?.getStart() ?? (previous === undefined ? elements.end : node.end);
  return text.slice(0, start) + text.slice(end);
}

/**
 * Adds what a class of another source has and the text lacks: members, other statements and imports. What
 * exists stays the same.
 */
export function addMissing(text: string, other: string): string {
  const [source, template] = [parse(text), parse(other)];
  const names = new Set(source.statements.flatMap(getDeclaredNames));
  let result = text;
  for (const statement of template.statements) {
    if (ts.isImportDeclaration(statement)) continue;
    const existing = source.statements.find(
      (candidate) =>
        ts.isClassDeclaration(candidate) &&
        ts.isClassDeclaration(statement) &&
        candidate.name?.text === statement.name?.text,
    );
    if (existing !== undefined) {
      const members = getMissingMembers(
        existing as ts.ClassDeclaration,
        statement as ts.ClassDeclaration,
      );
      result = insertMembers(result, (existing as ts.ClassDeclaration).name!.text, members);
    } else if (getDeclaredNames(statement).some((name) => !names.has(name))) {
      // A constant is declared before the class that uses it.
      result = ts.isFunctionDeclaration(statement)
        ? `${result}\n${statement.getFullText().trim()}\n`
        : insertBeforeClass(result, statement.getText());
    }
  }
  return result === text ? text : renderImports(template) + result;
}

/** Adds members to the end of a class. */
export function insertMembers(text: string, className: string, members: readonly string[]): string {
  if (members.length === 0) return text;
  const position = findClass(text, className)!.end - 1;
  return `${text.slice(0, position)}\n${members.join('\n\n')}\n${text.slice(position)}`;
}

/** Adds a decorator to a class. */
export function decorateClass(text: string, className: string, decorator: string): string {
  const declaration = findClass(text, className)!;
  const start = getDecorators(declaration).at(-1)?.end ?? declaration.getStart();
  return `${text.slice(0, start)}\n${decorator}${text.slice(start)}`;
}

/** Adds a parameter to the constructor of a class, which is added if it is missing. */
export function addConstructorParameter(
  text: string,
  className: string,
  parameter: string,
): string {
  const declaration = findClass(text, className)!;
  if (declaration.getText().includes(parameter)) return text;
  const constructor = declaration.members.find((member) => ts.isConstructorDeclaration(member));
  if (constructor === undefined) {
    const start = declaration.members[0]?.getFullStart() ?? declaration.end - 1;
    return `${text.slice(0, start)}\nconstructor(${parameter}) {}\n${text.slice(start)}`;
  }
  const [first] = constructor.parameters;
  const start = first?.getStart() ?? text.indexOf('(', constructor.getStart()) + 1;
  return `${text.slice(0, start)}${parameter}${first === undefined ? '' : ', '}${text.slice(start)}`;
}

/** Adds a property to the object that a function returns, unless it has one of that name. */
export function addReturnedProperty(
  text: string,
  functionName: string,
  name: string,
  value: string,
): string {
  const object = findReturnedObject(parse(text), functionName);
  if (object === undefined) return text;
  if (object.properties.some((property) => property.name?.getText() === name)) return text;
  const position = object.end - 1;
  const separator = object.properties.length > 0 && !object.properties.hasTrailingComma ? ', ' : '';
  return `${text.slice(0, position)}${separator}${name}: ${value},${text.slice(position)}`;
}

/** Finds the object that a function, or an arrow function that is a constant, returns. */
function findReturnedObject(
  source: ts.SourceFile,
  functionName: string,
): ts.ObjectLiteralExpression | undefined {
  const visit = (node: ts.Node): ts.ObjectLiteralExpression | undefined =>
    (ts.isReturnStatement(node) || ts.isParenthesizedExpression(node)) &&
    node.expression !== undefined &&
    ts.isObjectLiteralExpression(node.expression)
      ? node.expression
      : ts.forEachChild(node, visit);
  const declaration = source.statements.find((statement) =>
    getDeclaredNames(statement).includes(functionName),
  );
  return declaration === undefined ? undefined : visit(declaration);
}

/** Whether a class has a member. */
export function hasMember(text: string, className: string, name: string): boolean {
  return (
    findClass(text, className)?.members.some((member) => member.name?.getText() === name) ?? false
  );
}

function findClass(text: string, name: string): ts.ClassDeclaration | undefined {
  return parse(text).statements.find(
    (statement): statement is ts.ClassDeclaration =>
      ts.isClassDeclaration(statement) && statement.name?.text === name,
  );
}

function getDeclaredNames(statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const { name } = statement as Partial<ts.DeclarationStatement>;
  return name === undefined ? [] : [name.getText()];
}

function getMissingMembers(existing: ts.ClassDeclaration, other: ts.ClassDeclaration): string[] {
  const names = new Set(existing.members.map(({ name }) => name?.getText()));
  return other.members
    .filter(({ name }) => name !== undefined && !names.has(name.getText()))
    .map((member) => member.getFullText().trim());
}

function insertBeforeClass(text: string, statement: string): string {
  const source = parse(text);
  const declaration = source.statements.find((candidate) => ts.isClassDeclaration(candidate));
  const position = declaration?.getFullStart() ?? text.length;
  return `${text.slice(0, position)}\n\n${statement}\n${text.slice(position)}`;
}

const renderImports = ({ statements }: ts.SourceFile): string =>
  statements
    .filter((statement) => ts.isImportDeclaration(statement))
    .map((statement) => `${statement.getText()}\n`)
    .join('');

/** Finds the array that is the value of a constant or of a property. */
function findArray(text: string, name: string): ts.ArrayLiteralExpression | undefined {
  const visit = (node: ts.Node): ts.ArrayLiteralExpression | undefined =>
    (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) &&
    node.name.getText() === name &&
    node.initializer !== undefined &&
    ts.isArrayLiteralExpression(node.initializer)
      ? node.initializer
      : ts.forEachChild(node, visit);
  return visit(parse(text));
}

/** Adds a property to the argument of `@Feature`, in its place among the other properties. */
function addFeatureProperty(text: string, name: string, value: string): string {
  const argument = parse(text)
    .statements.map((statement) => getDecoratorCall(statement, 'Feature')?.arguments[0])
    .find((node) => node !== undefined);
  if (argument === undefined || !ts.isObjectLiteralExpression(argument))
    throw new Error('The source has no @Feature.');
  const { properties } = argument;
  const rank = FEATURE_PROPERTIES.indexOf(name);
  const next = properties.find(
    (property) => FEATURE_PROPERTIES.indexOf(property.name?.getText() ?? '') > rank,
  );
  const position = (next ?? properties.at(-1))!;
  return next === undefined
    ? `${text.slice(0, position.end)}, ${name}: ${value}${text.slice(position.end)}`
    : `${text.slice(0, position.getStart())}${name}: ${value},\n  ${text.slice(position.getStart())}`;
}

/** Adds an import in the order of the paths, unless the path is imported already. */
export function addImport(text: string, name: string, path: string): string {
  const imports = parse(text)
    .statements.filter((statement) => ts.isImportDeclaration(statement))
    .map(({ moduleSpecifier, end }) => ({ path: (moduleSpecifier as ts.StringLiteral).text, end }));
  if (imports.some((existing) => existing.path === path)) return text;
  const earlier = imports.filter(
    (existing) => !existing.path.startsWith('.') || existing.path < path,
  );
  const end = earlier.at(-1)?.end ?? 0;
  return `${text.slice(0, end)}\nimport { ${name} } from '${path}';${text.slice(end)}`;
}

/** Sorts the imports and removes the unused ones, as an editor does. */
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
      (rest, { span, newText }) =>
        rest.slice(0, span.start) + newText + rest.slice(span.start + span.length),
      text,
    );
}

/** Formats a source with the options of the project. */
export async function formatSource(tree: Tree, text: string): Promise<string> {
  // A dry run does not load it.
  const { format } = await import('prettier');
  const options = JSON.parse(tree.readText('/.prettierrc.json')) as PrettierOptions;
  return format(text, { ...options, parser: 'typescript' });
}
