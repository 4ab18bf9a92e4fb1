/** Reads parts of JSON whose form is not known. */

/** An object of a document, whose form the reader checks. */
export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns a property of an object, or undefined if the value is not an object. */
export const get = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;

/** Returns the entries of an object, without extensions; none if the value is not an object. */
export const entries = (value: unknown): [string, unknown][] =>
  isObject(value) ? Object.entries(value).filter(([key]) => !key.startsWith('x-')) : [];

export const items = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? toSafeMarkdown(value) : undefined;

/** Escapes scripts, event handlers and `javascript:` URLs in a description. */
export const toSafeMarkdown = (value: string): string =>
  value
    .replaceAll(/<(?=\/?script\b|[a-z][^>]*\bon[a-z]+\s*=)/gi, '&lt;')
    .replaceAll(/javascript(?=:)/gi, 'javascript&#8203;');

/** Follows references within a document. In OpenAPI 3.1, a keyword beside a reference overrides the referenced one. */
export function resolve(root: Json, value: unknown): unknown {
  let current = value;
  for (let depth = 0; typeof get(current, '$ref') === 'string'; depth++) {
    if (depth > MAX_REFERENCES) return {};
    const { $ref, ...siblings } = current as { $ref: string };
    const target = $ref
      .slice(2)
      .split('/')
      .map((key) => decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>(
        (parent, key) => (Array.isArray(parent) ? parent[Number(key)] : get(parent, key)),
        root,
      );
    current = isObject(target) ? { ...target, ...siblings } : target;
  }
  return current;
}

/** A chain of references that is longer refers to itself. */
const MAX_REFERENCES = 100;
