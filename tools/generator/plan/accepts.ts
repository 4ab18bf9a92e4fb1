/** Compares schemas by their structure. */
import { toRegExp } from '../../../src/platform/validation/scalar-violations.js';
import { getProperties, type Schema } from '../model.js';

/**
 * Whether TypeScript assigns each value of one schema to another, apart from null.
 *
 * @param isPatch whether the value is a merge patch, whose objects may lack properties
 * @param checksLimits whether the values must be valid, too
 * @param compared the classes that are compared already, which may contain themselves
 */
export function accepts(
  to: Schema,
  from: Schema,
  isPatch = false,
  checksLimits = false,
  compared = new Set<string>(),
): boolean {
  const [properties, others] = [getProperties(to), getProperties(from)];
  if (properties !== undefined && others !== undefined) {
    const pair = `${to.class?.name} ${from.class?.name} ${isPatch}`;
    if (properties === others || (to.class && from.class && compared.has(pair))) return true;
    compared.add(pair);
    const hasCommon = properties.some(({ name }) => others.some((each) => each.name === name));
    const isEmpty = properties.length === 0 || others.length === 0;
    return (
      (hasCommon || isEmpty) &&
      // What is shown has nothing that its schema lacks.
      (!checksLimits ||
        others.every(({ name }) => properties.some((each) => each.name === name))) &&
      properties.every((property) => {
        const other = others.find(({ name }) => name === property.name);
        const isOptional = isPatch || !property.required;
        if (other === undefined) return isOptional;
        return (
          (other.required || isOptional) &&
          (other.nullable !== true || property.nullable === true || isPatch) &&
          accepts(property, other, isPatch, checksLimits, compared)
        );
      })
    );
  }
  if (to.enum !== undefined) return from.enum?.every((value) => to.enum!.includes(value)) === true;
  if (isAny(to)) return true;
  if (to.oneOf !== undefined)
    return (from.oneOf ?? [from]).every((each) =>
      to.oneOf!.some((alternative) => accepts(alternative, each, false, checksLimits, compared)),
    );
  if ((properties ?? others) !== undefined) return false;
  if (checksLimits && !isWithin(to, from)) return false;
  if (to.items !== undefined && from.items !== undefined)
    return accepts(to.items, from.items, false, checksLimits, compared);
  if (to.type === 'object' && from.type === 'object')
    return accepts(getValues(to), getValues(from), false, checksLimits, compared);
  return to.type === from.type || (to.type === 'number' && from.type === 'integer');
}

/** Whether the limits of a schema include those of another one. */
function isWithin(to: Schema, from: Schema): boolean {
  const texts = from.type === 'string' ? from.enum?.map(String) : undefined;
  if (texts !== undefined)
    return texts.every(
      (text) =>
        text.length >= (to.minLength ?? 0) &&
        text.length <= (to.maxLength ?? Infinity) &&
        toRegExp(to.pattern ?? '').test(text),
    );
  const isFormat = to.format === undefined || to.format === from.format;
  return (
    (to.minimum ?? -Infinity) <= (from.minimum ?? -Infinity) &&
    (to.maximum ?? Infinity) >= (from.maximum ?? Infinity) &&
    (['minLength', 'minItems'] as const).every((key) => (to[key] ?? 0) <= (from[key] ?? 0)) &&
    (['maxLength', 'maxItems'] as const).every(
      (key) => (to[key] ?? Infinity) >= (from[key] ?? Infinity),
    ) &&
    EQUAL.every((key) => to[key] === undefined || to[key] === from[key]) &&
    (to.type !== 'string' || isFormat)
  );
}

/** Keywords that must be the same, because none is compared as part of another one. */
const EQUAL = [
  'pattern',
  'multipleOf',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'uniqueItems',
] as const;

/** Whether a schema, or an alternative of it, accepts every value. */
const isAny = ({ type, class: dto, enum: values, oneOf }: Schema): boolean =>
  oneOf === undefined ? (type ?? dto ?? values) === undefined : oneOf.some(isAny);

/** The schema of the values of an object without properties. */
const getValues = ({ additionalProperties: values }: Schema): Schema =>
  values === true ? {} : (values ?? {});
