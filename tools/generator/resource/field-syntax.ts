/** Parses the fields of a resource. fields.ts defines the types. */
import { SchematicsException } from '@angular-devkit/schematics';

/** A field, as the user wrote it. */
export interface FieldNode {
  readonly name: string;
  /** Where it starts. */
  readonly position: number;
  readonly type: TypeNode;
  readonly optional: boolean;
  readonly default: Word | undefined;
  readonly modifiers: readonly Word[];
}

/** The type of a field, of the items of an array, or of the values of a map. */
export type TypeNode = { readonly position: number } & (
  | { readonly kind: 'value'; readonly name: string; readonly argument: string | undefined }
  | { readonly kind: 'object'; readonly fields: readonly FieldNode[] }
  | {
      readonly kind: 'array';
      readonly items: TypeNode;
      readonly min: number;
      readonly max: number;
    }
  | { readonly kind: 'map'; readonly values: TypeNode; readonly max: number }
);

/** A part of the text, and where it starts. */
export interface Word {
  readonly text: string;
  readonly position: number;
}

/** The most items of an array, or entries of a map. */
const MAX_ITEMS = 1000;
const DEFAULT_MAX_ITEMS = 100;

/**
 * Parses fields, separated by spaces:
 *
 *     field = name ":" type ["?"] ["=" default] {":" modifier}
 *     type  = (name ["(" argument ")"] | "{" fields "}" | "map(" type ["," max] ")") {"[" [min ".." max] "]"}
 *
 * @throws {SchematicsException} with the field, the position and what is wrong
 */
export function parseFieldNodes(text: string): FieldNode[] {
  return new Parser(text).parse();
}

/** Creates an error about a field. */
export function invalidField(
  { name }: { name: string },
  position: number,
  violation: string,
): SchematicsException {
  return new SchematicsException(
    `Invalid field ${name} at position ${position + 1}: ${violation}.`,
  );
}

class Parser {
  private position = 0;
  /** The name of the current field. */
  private name = '';

  constructor(private readonly text: string) {}

  parse(): FieldNode[] {
    const fields = this.parseFields();
    if (this.position < this.text.length) throw this.unexpected('a space and the next field');
    return fields;
  }

  /** Parses fields up to a character that cannot start one. */
  private parseFields(): FieldNode[] {
    const fields: FieldNode[] = [];
    let separator = this.read(/\s*/y);
    while (separator !== undefined && (this.text[this.position] ?? '}') !== '}') {
      fields.push(this.parseField());
      separator = this.read(/\s+/y);
    }
    return fields;
  }

  private parseField(): FieldNode {
    const { position, name: parent } = this;
    const name = this.read(/[a-z][A-Za-z0-9]*/y)?.[0];
    this.name = name ?? this.text.slice(position).split(/\s/, 1)[0]!;
    if (name === undefined || this.read(/:/y) === undefined)
      throw this.unexpected('name:type, such as age:integer?');
    const type = this.parseType();
    const optional = this.read(/\?/y) !== undefined;
    const defaultValue = this.read(/=/y) && this.readWord(/\[\]|\{\}|[^\s:?{}[\]]+/y, 'a default');
    const modifiers: Word[] = [];
    while (this.read(/:/y)) modifiers.push(this.readWord(/[a-z-]+/y, 'a modifier'));
    if (parent !== '') this.name = parent;
    return { name, position, type, optional, default: defaultValue, modifiers };
  }

  private parseType(): TypeNode {
    let type = this.parseItemType();
    for (;;) {
      const { position } = this;
      const [limits, min, max] = this.read(/\[(?:(\d{1,4})\.\.(\d{1,4}))?\]/y) ?? [];
      if (limits === undefined) return type;
      const [least, most] = [Number(min ?? 0), Number(max ?? DEFAULT_MAX_ITEMS)];
      if (least > most || most < 1 || most > MAX_ITEMS)
        throw this.fail(position, `expected a number of items up to ${MAX_ITEMS}, such as [0..10]`);
      type = { kind: 'array', items: type, min: least, max: most, position: type.position };
    }
  }

  private parseItemType(): TypeNode {
    const { position } = this;
    if (this.read(/\{/y)) {
      const fields = this.parseFields();
      if (fields.length === 0) throw this.unexpected('the fields of the object');
      this.expect(/\s*\}/y, '} or a space and the next field');
      return { kind: 'object', fields, position };
    }
    if (this.read(/map\(/y)) {
      const values = this.parseType();
      const limit = this.position;
      const max = Number(this.read(/,(\d{1,4})/y)?.[1] ?? DEFAULT_MAX_ITEMS);
      if (max < 1 || max > MAX_ITEMS)
        throw this.fail(limit, `expected a number of entries from 1 to ${MAX_ITEMS}`);
      this.expect(/\)/y, ') or a number of entries, such as map(integer,10)');
      return { kind: 'map', values, max, position };
    }
    const name = this.readWord(/[a-z-]+/y, 'a type').text;
    const argument = this.read(/\(([^()]*)\)/y)?.[1]?.trim();
    return { kind: 'value', name, argument, position };
  }

  private readWord(pattern: RegExp, expected: string): Word {
    const { position } = this;
    const text = this.read(pattern)?.[0];
    if (text === undefined) throw this.unexpected(expected);
    return { text, position };
  }

  private expect(pattern: RegExp, expected: string): void {
    if (this.read(pattern) === undefined) throw this.unexpected(expected);
  }

  /** Matches a sticky pattern at the position, and moves the position behind it. */
  private read(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.position;
    const match = pattern.exec(this.text) ?? undefined;
    if (match !== undefined) this.position = pattern.lastIndex;
    return match;
  }

  private unexpected(expected: string): SchematicsException {
    return this.fail(this.position, `expected ${expected}`);
  }

  private fail(position: number, violation: string): SchematicsException {
    return invalidField({ name: this.name }, position, violation);
  }
}
