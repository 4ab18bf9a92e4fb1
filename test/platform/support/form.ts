export const FORM = 'application/x-www-form-urlencoded';

/**
 * Encodes a body as a form: arrays repeat their name, or have indexes if their items are objects.
 *
 * @param isJson whether the objects of a property are JSON, by its name; by default, they have keys in brackets
 */
export function toForm(
  body: Readonly<Record<string, unknown>>,
  isJson: (name: string) => boolean = () => false,
): string {
  const fields = Object.entries(body).flatMap(([name, value]) =>
    toFields(name, value, isJson(name)),
  );
  return new URLSearchParams(fields).toString();
}

function toFields(name: string, value: unknown, isJson: boolean): [string, string][] {
  if (Array.isArray(value))
    return value.flatMap((item: unknown, index) => {
      const isScalar = typeof item !== 'object' || isJson;
      return toFields(isScalar ? name : `${name}[${index}]`, item, isJson);
    });
  if (typeof value !== 'object' || value === null) return [[name, String(value)]];
  if (isJson) return [[name, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, inner]) =>
    toFields(`${name}[${key}]`, inner, isJson),
  );
}
