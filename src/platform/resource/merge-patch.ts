import type { Type } from '@nestjs/common';
import { Property } from '../validation/property.js';
import { isObject, type Schema } from '../validation/schema.js';
import { WITHOUT_SCHEMA, getFields } from '../validation/schema-rules.js';

/** Every property is optional, and those that can be cleared may be null. */
type Patch<Body, Clearable extends keyof Body> = {
  [Name in keyof Body]?: PatchValue<Body[Name]> | (Name extends Clearable ? null : never);
};

/** A patch replaces an array, and merges an object: null removes an entry of a map, or an optional property. */
export type PatchValue<Value> = Value extends readonly unknown[]
  ? Value
  : Value extends object
    ? {
        [Name in keyof Value]?:
          | PatchValue<Value[Name]>
          | (string extends keyof Value ? null : undefined extends Value[Name] ? null : never);
      }
    : Value;

/**
 * Creates the DTO of a JSON merge patch (RFC 7396) from the DTO of a resource: an omitted property stays unchanged, without
 * its default, and null removes a clearable one. The same applies to the properties of a nested object; an array is
 * replaced as a whole. A patch of a nested object that the resource lacks can leave out its required properties: validate
 * the result of `applyMergePatch` with the DTO of the resource.
 *
 * @param clearable the optional properties
 * @throws {TypeError} if a property has other decorators, but no `@Property`
 */
export function MergePatch<Body, const Clearable extends string & keyof Body = never>(
  body: Type<Body>,
  clearable: readonly Clearable[] = [],
): Type<Patch<Body, Clearable>> {
  class MergePatchBody {}
  for (const [name, schema] of getFields(body).declared) {
    if (schema.readOnly === true) continue;
    if (schema === WITHOUT_SCHEMA)
      throw new TypeError(`MergePatch of ${body.name}: declare ${name} with @Property.`);
    const nullable = (clearable as readonly string[]).includes(name);
    Property({ ...toPatch(schema), optional: true, nullable })(MergePatchBody.prototype, name);
  }
  return MergePatchBody;
}

/** Returns the schema of a value in a JSON merge patch (RFC 7396, section 2). */
function toPatch({ default: _default, ...schema }: Schema): Schema {
  const { type, properties, additionalProperties, discriminator } = schema;
  // The branch is known only after merging: the result is validated.
  if (discriminator !== undefined) return { type: 'object', description: schema.description };
  if (typeof type === 'function') return { ...schema, type: () => toNestedPatch(type()) };
  const entries = Object.entries(properties ?? {}).filter(([, inner]) => inner.readOnly !== true);
  return {
    ...schema,
    minProperties: undefined,
    ...(properties && {
      properties: Object.fromEntries(
        entries.map(([name, inner]) => [
          name,
          { ...toPatch(inner), nullable: inner.optional, optional: true },
        ]),
      ),
    }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: { ...toPatch(additionalProperties), nullable: true },
    }),
  };
}

const nestedPatches = new WeakMap<Type, Type>();

/** Returns the DTO of a merge patch for the class of a nested object. */
function toNestedPatch(dto: Type): Type<object> {
  let patch = nestedPatches.get(dto);
  if (patch === undefined) {
    const optional = [...getFields(dto).declared].filter(([, schema]) => schema.optional);
    const names = optional.map(([name]) => name);
    patch = MergePatch<Record<string, unknown>, string>(dto, names);
    // The name of the schema in the OpenAPI document.
    Object.defineProperty(patch, 'name', { value: `${dto.name}MergePatch` });
    nestedPatches.set(dto, patch);
  }
  return patch;
}

/** Returns a JSON value with a JSON merge patch applied (RFC 7396, section 2); both stay unchanged. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else if (value !== undefined) result[name] = applyMergePatch(result[name], value);
  }
  return result;
}
