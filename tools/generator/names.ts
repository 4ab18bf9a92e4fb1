/** Derives names of code from published names, which may be any text. */
import pluralize from 'pluralize';

/** Reserved words of TypeScript, globals, and names that generated files import or declare. */
const RESERVED = new Set([
  ...Object.getOwnPropertyNames(Object.prototype),
  ...(
    'Array Boolean Buffer Date Error Function JSON Map Math Number Object Partial Promise Proxy Readonly Record Reflect RegExp Set ' +
    'String Symbol URL WeakMap api items kit manager paging result row DECORATORS OperationId prototype ' +
    'arguments await break case catch class const constructor continue debugger default delete do else enum eval export extends ' +
    'false finally for function if implements import in instanceof interface let new null package private protected public return ' +
    'static super switch this throw true try typeof undefined var void while with yield async of ' +
    'Body Controller Delete Get Injectable Patch Post Put Query StreamableFile applyDecorators ApiSchema ' +
    'InjectRepository Check Column Entity ForeignKey Index Unique Repository Table TableColumn MigrationInterface QueryRunner ' +
    'ApiError BinaryBody CachedJsonResponse Complete Feature IdColumn IdParam IdempotencyKey JsonBody Operation Property Public ' +
    'Resource ResourceKit NaN Infinity notImplemented refuseQuery ' +
    // Nest awaits a provider, and calls its hooks.
    'then onModuleInit onModuleDestroy onApplicationBootstrap onApplicationShutdown beforeApplicationShutdown'
  ).split(' '),
]);

/** Returns whether a property name is inherited from `Object.prototype`, or has a meaning in each object. */
export const isUnusable = (name: string): boolean =>
  name in Object.prototype || name === 'prototype' || name === 'then';

/** Splits a name of any style into words: `get-stations`, `HTTPServer2`, `x_next`. */
const splitWords = (name: string): string[] =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/([a-z\d])([A-Z])|([A-Z])([A-Z][a-z])/g, '$1$3 $2$4')
    .split(/[^A-Za-z\d]+/)
    .filter((word) => word !== '');

const capitalize = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** `Links-Self` → `LinksSelf`; a name without letters, such as `日本`, gets the fallback. */
export function toPascalCase(name: string, fallback = 'Unnamed'): string {
  const text = splitWords(name).map(capitalize).join('') || fallback;
  return /^\d/.test(text) ? `X${text}` : text;
}

/** `get-stations` → `getStations`. */
export function toCamelCase(name: string): string {
  const [first = 'unnamed', ...rest] = splitWords(name);
  const start = /^[A-Z\d]+$/.test(first)
    ? first.toLowerCase()
    : first.charAt(0).toLowerCase() + first.slice(1);
  const text = [start, ...rest.map(capitalize)].join('');
  return /^\d/.test(text) ? `x${text}` : text;
}

/** `SpecialEvent` → `special_event`. */
export const toSnakeCase = (name: string): string =>
  splitWords(name).join('_').toLowerCase() || 'unnamed';

/** `SpecialEvent` → `special-event`. */
export const toKebabCase = (name: string): string => toSnakeCase(name).replaceAll('_', '-');

/** `findPetById` → `Find pet by id`. */
export const toSentence = (name: string): string =>
  capitalize(splitWords(name).join(' ').toLowerCase());

/** Returns a class name, which ends in `Schema` if the name is reserved. */
export function toClassName(name: string): string {
  const className = toPascalCase(name, 'Schema');
  const isGenerated = /(Api|Controller|Entity|Module|Query|Service)$/.test(className);
  if (!RESERVED.has(className) && !isGenerated) return className;
  return className === 'Api' ? 'ApiDto' : `${className}Schema`;
}

/** Returns the name of a method or a parameter. */
export function toMemberName(name: string): string {
  const member = toCamelCase(name);
  return RESERVED.has(member) ? `${member}Value` : member;
}

/** Returns whether a property can be written without quotes. */
export const isIdentifier = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name);

export const toSingular = (noun: string): string => pluralize.singular(noun);

/** Returns a name in lower case, without separators. */
export const toBareName = (name: string): string =>
  name.replaceAll(/[^\p{L}\d]/gu, '').toLowerCase();

/** Returns whether two names differ in style only, such as `petId` and `pet_id`. */
export const isSameName = (a: string, b: string): boolean => toBareName(a) === toBareName(b);

/** Returns an unused name, with a number if necessary, and marks it as used. */
export function makeUnique(name: string, used: Set<string>, separator = ''): string {
  let unique = name;
  for (let number = 2; used.has(unique.toLowerCase()); number++)
    unique = `${name}${separator}${number}`;
  used.add(unique.toLowerCase());
  return unique;
}
