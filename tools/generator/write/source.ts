/** Writes literals, comments and imports of TypeScript. */
import { posix } from 'node:path';
import type { DtoClass, Property, Schema } from '../model.js';
import { isIdentifier } from '../names.js';

/** A generated file, which is not formatted yet. */
export interface SourceFile {
  /** The path in the project, such as `src/modules/pets/pets.service.ts`. */
  readonly path: string;
  readonly code: string;
}

/** TypeScript within a value of {@link literal}. */
export class Code {
  constructor(readonly text: string) {}
}

export const code = (text: string): Code => new Code(text);

/** Returns a property that {@link literal} writes as the spread of a variable. */
export const spread = ({ text }: Code): Readonly<Record<string, Code>> => ({
  [`...${text}`]: code(`...${text}`),
});

/** Writes a value, which may contain code, as TypeScript without undefined properties. Prettier chooses the quotes. */
export function literal(value: unknown): string {
  if (value instanceof Code) return value.text;
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const parts = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .map(([key, each]: [string, unknown]) =>
      each instanceof Code && each.text === key ? key : `${propertyName(key)}: ${literal(each)}`,
    );
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
}

/** Writes a call of a function or a decorator without undefined arguments. */
export const call = (name: string, ...args: readonly unknown[]): string =>
  `${name}(${args
    .filter((each) => each !== undefined)
    .map(literal)
    .join(', ')})`;

/** Returns a list or an object, or undefined if all its values are undefined. */
export const ifAny = <Value extends object>(value: Value): Value | undefined =>
  Object.values(value).some((each) => each !== undefined) ? value : undefined;

export const propertyName = (name: string): string =>
  name === '__proto__'
    ? `[${JSON.stringify(name)}]`
    : isIdentifier(name)
      ? name
      : JSON.stringify(name);

export const access = ({ text }: Code, name: string): Code =>
  code(isIdentifier(name) ? `${text}.${name}` : `${text}[${literal(name)}]`);

/** Writes a doc comment. */
export function comment(text: string): string {
  const lines = text.trim().replaceAll('*/', '*\\/').split('\n');
  return lines.length === 1
    ? `/** ${lines[0]!.trim()} */`
    : `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */`;
}

/** Converts a schema to the argument of `@Property`. A class becomes a function that returns it: `() => Pet`. */
export function toOptions(schema: Schema & Partial<Property>): object {
  const { name: _name, required, class: dto, unique: _u, references: _r, ...own } = schema;
  const { items, additionalProperties, anyOf, ...rest } = own;
  return {
    type: dto && code(`() => ${dto.name}`),
    ...rest,
    // A required property has no default.
    default: required === true ? undefined : rest.default,
    optional: required === false ? true : undefined,
    items: items && toOptions(items),
    additionalProperties:
      typeof additionalProperties === 'object'
        ? toOptions(additionalProperties)
        : additionalProperties,
    anyOf: anyOf?.map((each) =>
      each.class === undefined ? toOptions(each) : code(`() => ${each.class.name}`),
    ),
  };
}

/** Returns the classes that a schema contains. */
export const getClasses = ({
  class: dto,
  items,
  additionalProperties,
  anyOf = [],
}: Schema): DtoClass[] => [
  ...(dto === undefined ? [] : [dto]),
  ...[
    items,
    ...anyOf,
    typeof additionalProperties === 'object' ? additionalProperties : undefined,
  ].flatMap((each) => (each === undefined ? [] : getClasses(each))),
];

/** The names that generated files import, by module; those of the platform come from its one entry. */
const IMPORTS: Readonly<Record<string, string>> = {
  '@nestjs/common':
    'applyDecorators Body Controller Delete Get Injectable Patch Post Put Query type:StreamableFile',
  '@nestjs/swagger': 'ApiSchema',
  '@nestjs/typeorm': 'InjectRepository',
  typeorm:
    'Column Entity ForeignKey Index type:MigrationInterface type:QueryRunner Repository Table TableColumn Unique',
  'src/platform/index.js':
    'addRevisionTrigger ApiError bigintTransformer BinaryBody type:CachedJsonResponse type:Complete dateTimeTransformer ' +
    'dropRevisionTrigger Feature IdColumn idColumn IdParam IdempotencyKey JsonBody Operation Property Public refuseQuery ' +
    'type:Resource ResourceKit uuidTransformer',
  'test/platform/index.js': 'describeResource startApp',
};

/**
 * Returns a file with its imports.
 *
 * @param own the files of the module by the names that they declare; `type:` before a file imports types only
 */
export function toFile(
  path: string,
  text: string,
  own: Readonly<Record<string, string>> = {},
): SourceFile {
  const declared = new Map([
    ...Object.entries(IMPORTS).flatMap(([module, names]) =>
      names.split(' ').map((each): [string, string] => {
        const name = each.replace('type:', '');
        return [name, `${each.slice(0, -name.length)}${module}`];
      }),
    ),
    ...Object.entries(own),
  ]);
  // `IdempotencyKey` is a decorator and a type.
  if (!text.includes('@IdempotencyKey('))
    declared.set('IdempotencyKey', 'type:src/platform/index.js');
  const used = getNames(text).filter(
    (name) => declared.has(name) && !declared.get(name)!.endsWith(path.replace(/ts$/, 'js')),
  );
  const imports = [...Map.groupBy(used, (name) => declared.get(name)!.replace('type:', ''))].map(
    ([module, names]) => {
      const isOwn = /^(src|test)\//.test(module);
      const areTypes = names.every((name) => declared.get(name)!.startsWith('type:'));
      const list = names.map((name) =>
        !areTypes && declared.get(name)!.startsWith('type:') ? `type ${name}` : name,
      );
      const from = isOwn ? toRelative(path, module) : module;
      const line = `import ${areTypes ? 'type ' : ''}{ ${list.join(', ')} } from '${from}';`;
      return { isOwn, from, line };
    },
  );
  const sorted = imports.toSorted(
    (a, b) => Number(a.isOwn) - Number(b.isOwn) || (a.from < b.from ? -1 : 1),
  );
  return { path, code: `${sorted.map(({ line }) => line).join('\n')}\n\n${text}` };
}

/** Returns the sorted identifiers in code, without names of properties, texts and comments. */
function getNames(text: string): string[] {
  const withoutTexts = text
    .replaceAll(/\/\*[^]*?\*\/|'(\\.|[^'\\])*'|"(\\.|[^"\\])*"/g, '')
    .replaceAll(/`[^`]*`/g, (template) => (template.match(/\$\{[^}]*\}/g) ?? []).join(' '));
  const names = withoutTexts.match(/(?<!(?<!\.\.)\.)(?<![\w$])[A-Za-z]\w*(?!\w|\s*[!?]?:)/g) ?? [];
  return [...new Set(names)].toSorted();
}

function toRelative(from: string, to: string): string {
  const relative = posix.relative(posix.dirname(from), to);
  return relative.startsWith('.') ? relative : `./${relative}`;
}
