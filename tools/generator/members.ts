/** Reads the classes of generated files, which a team may have changed, with a parser. */
import { type ClassMethod, type ClassProperty, type Decorator, parse } from '@swc/core';
import { ContractError } from './read/document.js';

/** A method or a property of a class. */
export interface Member {
  readonly class: string;
  readonly name: string;
  /** Its code, with its decorators. */
  readonly code: string;
  /** The type of the column, and of the property, if it is that of an entity. */
  readonly column: string | undefined;
  /** Whether it is a method that only throws `notImplemented(…)`. */
  readonly isStub: boolean;
}

/**
 * Returns the methods and properties of all classes of a file.
 *
 * @throws {ContractError} if it is not TypeScript
 */
export async function readMembers(path: string, text: string): Promise<Member[]> {
  const bytes = Buffer.from(text);
  // Positions count bytes from 1.
  const getText = ({ start, end }: { start: number; end: number }): string =>
    bytes.subarray(start - 1, end - 1).toString();
  const program = await parse(text, { syntax: 'typescript', decorators: true }).catch(() => {
    throw new ContractError([`${path}: cannot be parsed: correct it first.`]);
  });
  return program.body.flatMap((statement) => {
    const declaration = statement.type === 'ExportDeclaration' ? statement.declaration : statement;
    if (declaration.type !== 'ClassDeclaration') return [];
    return declaration.body.flatMap((each) => {
      if (each.type !== 'ClassMethod' && each.type !== 'ClassProperty') return [];
      if (each.key.type !== 'Identifier' && each.key.type !== 'StringLiteral') return [];
      const type = each.type === 'ClassProperty' ? each.typeAnnotation : undefined;
      const column = type && getColumnType(each as ClassProperty);
      return {
        class: declaration.identifier.value,
        name: each.key.value,
        code: getText(each.span),
        column: type && column && `${column}${getText(type.span)}`,
        isStub: each.type === 'ClassMethod' && isStub(each),
      };
    });
  });
}

function isStub({ function: { body } }: ClassMethod): boolean {
  const [statement, ...others] = body?.stmts ?? [];
  if (statement?.type !== 'ThrowStatement' || others.length > 0) return false;
  const { argument } = statement;
  return (
    argument.type === 'CallExpression' &&
    argument.callee.type === 'Identifier' &&
    argument.callee.value === 'notImplemented'
  );
}

/** The first argument of `@Column`. */
function getColumnType({ decorators = [] }: { decorators?: Decorator[] }): string | undefined {
  for (const { expression } of decorators) {
    if (expression.type !== 'CallExpression') continue;
    const [argument] = expression.arguments;
    const isColumn =
      expression.callee.type === 'Identifier' && expression.callee.value === 'Column';
    if (isColumn && argument?.expression.type === 'StringLiteral') return argument.expression.value;
  }
  return undefined;
}
