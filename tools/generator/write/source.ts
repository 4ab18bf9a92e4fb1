/** What the writers share: imports, literals, comments and types of TypeScript. */
import { posix } from 'node:path';
import type { DtoClass, Property, Schema } from '../model.js';
import { isIdentifier } from '../names.js';

/** Where the platform and its libraries declare what generated code uses. A type has a `*`. */
const DECLARATIONS: Readonly<Record<string, string>> = {
  ...declare(
    '@nestjs/common',
    'Body Controller Delete Get Injectable Patch Post Put Query StreamableFile',
  ),
  ...declare('@nestjs/swagger', 'ApiSchema'),
  ...declare('@nestjs/typeorm', 'InjectRepository'),
  ...declare('node:crypto', 'randomUUID'),
  ...declare(
    'typeorm',
    'Check Column Entity ForeignKey Index Repository Table Unique *MigrationInterface *QueryRunner',
  ),
  ...declare('src/platform/config/max-id.js', 'MAX_ID'),
  ...declare(
    'src/platform/database/lists/revision-trigger.js',
    'addRevisionTrigger dropRevisionTrigger',
  ),
  ...declare(
    'src/platform/database/statements/columns.js',
    'bigintTransformer dateTimeTransformer IdColumn idColumn uuidTransformer VersionColumn versionColumn',
  ),
  ...declare('src/platform/errors/api-error.js', 'ApiError'),
  ...declare('src/platform/auth/public.decorator.js', 'Public'),
  ...declare('src/platform/feature.decorator.js', 'Feature'),
  ...declare('src/platform/http/responses/cached-json-response.js', '*CachedJsonResponse'),
  ...declare('src/platform/idempotency/idempotency-key.decorator.js', 'IdempotencyKey'),
  ...declare('src/platform/resource/binary-body.decorator.js', 'BinaryBody'),
  ...declare('src/platform/resource/id-param.decorator.js', 'IdParam'),
  ...declare('src/platform/resource/if-match.decorator.js', 'IfMatch *VersionCriteria'),
  ...declare('src/platform/resource/json-body.decorator.js', 'JsonBody'),
  ...declare('src/platform/resource/operation.decorator.js', 'Operation'),
  ...declare('src/platform/resource/password.js', 'hashPassword'),
  ...declare('src/platform/resource/property.js', 'Property'),
  ...declare('src/platform/resource/resource.js', '*Complete *Resource'),
  ...declare('src/platform/resource/resource-kit.js', 'ResourceKit'),
  ...declare('src/platform/resource/returns-location.js', 'ReturnsLocation'),
  ...declare('src/platform/resource/versioned.js', 'ReturnsEtag *Versioned'),
  ...declare('test/support/app.js', 'startApp'),
  ...declare('test/support/describe-resource.js', 'describeResource'),
  ...declare('test/support/http-client.js', 'jsonHeaders sendRequest'),
};

function declare(module: string, names: string): Record<string, string> {
  return Object.fromEntries(
    names
      .split(' ')
      .map((name) => [name.replace('*', ''), name.startsWith('*') ? `type ${module}` : module]),
  );
}

/** A file of TypeScript: its code, and the imports that it uses. */
export class SourceFile {
  private readonly names = new Map<string, Set<string>>();

  /** @param path in the project, such as `src/modules/pets/pets.service.ts` */
  constructor(readonly path: string) {}

  /** Imports what the platform or one of its libraries declares, and returns its name. */
  use(name: string): string {
    const declaration = DECLARATIONS[name];
    if (declaration === undefined) throw new TypeError(`No file declares ${name}`);
    const [module = '', type] = declaration.split(' ').toReversed();
    return this.import(module, type === undefined ? name : `type ${name}`);
  }

  /** @param module a package, or a path in the project */
  import(module: string, name: string): string {
    const names = this.names.get(module) ?? new Set();
    this.names.set(module, names.add(name));
    return name.replace(/^type /, '');
  }

  /** Returns the text of the file. */
  render(code: string, firstLine = ''): string {
    const imports = [...this.names]
      .map(([module, names]) => {
        const isOwn = /^(src|test)\//.test(module);
        const from = isOwn ? toRelative(this.path, module) : module;
        // A file that only types are imported from is not loaded.
        const areTypes = [...names].every((name) => name.startsWith('type '));
        const list = [...names]
          .toSorted((a, b) => (bare(a) < bare(b) ? -1 : 1))
          .map((name) => (areTypes ? bare(name) : name));
        return {
          isOwn,
          from,
          text: `import ${areTypes ? 'type ' : ''}{ ${list.join(', ')} } from '${from}';`,
        };
      })
      .toSorted((a, b) => Number(a.isOwn) - Number(b.isOwn) || (a.from < b.from ? -1 : 1));
    return [firstLine, imports.map(({ text }) => text).join('\n'), '', code].join('\n').trimStart();
  }
}

const bare = (name: string): string => name.replace(/^type /, '');

function toRelative(from: string, to: string): string {
  const relative = posix.relative(posix.dirname(from), to);
  return relative.startsWith('.') ? relative : `./${relative}`;
}

/** A string of TypeScript in single quotes. */
export function quote(text: string): string {
  const escaped = JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/\\"|\\\\|'/g, (match) => ({ '\\"': '"', "'": "\\'" })[match] ?? match);
  return `'${escaped}'`;
}

/** A JSON value in the style of the codebase. */
export function literal(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${propertyName(key)}: ${literal(each)}`)
    .join(', ')} }`;
}

/** An object of TypeScript, from code; undefined values are left out. */
export function object(properties: Readonly<Record<string, string | undefined>>): string {
  const parts = Object.entries(properties).flatMap(([key, code]) =>
    code === undefined ? [] : [key === code ? key : `${propertyName(key)}: ${code}`],
  );
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
}

export const propertyName = (name: string): string => (isIdentifier(name) ? name : quote(name));

export const access = (target: string, name: string): string =>
  isIdentifier(name) ? `${target}.${name}` : `${target}[${quote(name)}]`;

/** A doc comment. */
export function comment(text: string | undefined): string {
  if (text === undefined) return '';
  const lines = text.trim().replaceAll('*/', '*\\/').split('\n');
  return lines.length === 1
    ? `/** ${lines[0]!.trim()} */`
    : `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */`;
}

/** The first sentence of a description, for a comment. */
export const firstSentence = (text: string | undefined): string | undefined =>
  text
    ?.trim()
    .split(/(?<=[.!?])\s|\n/)[0]
    ?.slice(0, 200);

/** The type of the values of a schema. */
export function toType(schema: Schema): string {
  const type = toNonNullType(schema);
  return schema.nullable === true && type !== 'unknown' ? `${type} | null` : type;
}

function toNonNullType(schema: Schema): string {
  const {
    type,
    class: className,
    enum: values,
    items,
    properties,
    additionalProperties,
    oneOf,
  } = schema;
  if (className !== undefined) return className;
  if (schema.binary !== undefined) return 'Buffer';
  if (oneOf !== undefined) {
    const types = new Set(oneOf.map(toType));
    return types.has('unknown') ? 'unknown' : [...types].join(' | ');
  }
  if (values !== undefined) return values.map(literal).join(' | ');
  if (type === 'array') {
    const item = toType(items ?? {});
    return /^[\w.]+$/.test(item) ? `${item}[]` : `(${item})[]`;
  }
  if (properties !== undefined) return toObjectType(properties);
  if (type === 'object')
    return `Record<string, ${additionalProperties === true || additionalProperties === undefined ? 'unknown' : toType(additionalProperties)}>`;
  if (type === 'integer') return 'number';
  return type ?? 'unknown';
}

const toObjectType = (properties: readonly Property[]): string =>
  `{ ${properties.map((each) => `${propertyName(each.name)}${each.required ? '' : '?'}: ${toType(each)}`).join('; ')} }`;

/** The argument of `@Property`: a schema, with classes as functions. */
export function schemaLiteral(
  schema: Schema & { readonly required?: boolean; readonly name?: string },
): string {
  const {
    name: _name,
    required,
    class: className,
    items,
    properties,
    additionalProperties,
    oneOf,
    discriminator,
    unique: _u,
    references: _r,
    binary: _b,
    pattern,
    ...rest
  } = schema;
  return object({
    type: className === undefined ? rest.type && quote(rest.type) : `() => ${className}`,
    ...Object.fromEntries(
      Object.entries(rest)
        // What is required has no default.
        .filter(([key]) => key !== 'type' && !(key === 'default' && required === true))
        .map(([key, value]) => [key, value === undefined ? undefined : literal(value)]),
    ),
    pattern: pattern === undefined ? undefined : quote(pattern),
    optional: required === false ? 'true' : undefined,
    items: items && schemaLiteral(items),
    properties:
      properties &&
      object(Object.fromEntries(properties.map((each) => [each.name, schemaLiteral(each)]))),
    additionalProperties:
      additionalProperties &&
      (additionalProperties === true ? 'true' : schemaLiteral(additionalProperties)),
    oneOf:
      oneOf &&
      `[${oneOf.map((each) => (each.class === undefined ? schemaLiteral(each) : `() => ${each.class}`)).join(', ')}]`,
    discriminator:
      discriminator &&
      object({
        propertyName: quote(discriminator.property),
        mapping: object(
          Object.fromEntries(
            Object.entries(discriminator.mapping).map(([value, target]) => [
              value,
              `() => ${target}`,
            ]),
          ),
        ),
      }),
  });
}

/** The classes whose names a schema contains. */
export function getClassNames(schema: Schema): string[] {
  const { class: name, items, properties = [], additionalProperties, oneOf = [] } = schema;
  return [
    ...(name === undefined ? [] : [name]),
    ...[
      items,
      ...properties,
      additionalProperties === true ? undefined : additionalProperties,
      ...oneOf,
    ].flatMap((each) => (each === undefined ? [] : getClassNames(each))),
  ];
}

/** Sorts classes so that each comes after those that it contains, as far as they do not contain one another. */
export function sortClasses(classes: readonly DtoClass[]): DtoClass[] {
  const sorted = new Set<DtoClass>();
  const visiting = new Set<DtoClass>();
  const visit = (dto: DtoClass): void => {
    if (sorted.has(dto) || visiting.has(dto)) return;
    visiting.add(dto);
    for (const name of dto.properties.flatMap(getClassNames)) {
      const used = classes.find((each) => each.name === name);
      if (used !== undefined) visit(used);
    }
    sorted.add(dto);
  };
  classes.forEach(visit);
  return [...sorted];
}
