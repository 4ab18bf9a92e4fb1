/**
 * Takes the defaults out of the bodies of PATCH requests: what such a request omits stays as it is. The items of an array
 * keep theirs, because a patch replaces an array as a whole.
 */
import {
  type DtoClass,
  getNested,
  type Notes,
  type PlannedOperation,
  type Schema,
} from '../model.js';
import { makeUnique } from '../names.js';

const hasDefault = (schema: Schema): boolean =>
  getNested(schema, false).some(({ default: value }) => value !== undefined);

/** What keeps its defaults of what a request or a response contains: all of it, or the items of arrays. */
const getKept = (schema: Schema, isPatch: boolean): Schema[] =>
  isPatch
    ? getNested(schema, false).flatMap(({ items }) => (items ? getNested(items) : []))
    : getNested(schema);

/**
 * Changes the bodies of PATCH requests.
 *
 * @param classes those of the module, to which a class is added for each that other requests or responses have, too
 */
export function removeDefaults(
  operations: readonly PlannedOperation[],
  classes: DtoClass[],
  notes: Notes,
): void {
  const used = new Set(
    operations
      .flatMap(({ method, body, success }) => [
        ...getKept(body?.schema ?? {}, method === 'patch'),
        ...getKept(success.schema ?? {}, false),
      ])
      .map((each) => each.class),
  );
  const names = new Set(classes.map(({ publishedName }) => publishedName.toLowerCase()));
  const patches = new Map<DtoClass, DtoClass>();
  const toPatch = (dto: DtoClass): DtoClass => {
    const known = patches.get(dto);
    if (known !== undefined || !hasDefault({ class: dto })) return known ?? dto;
    const patch = used.has(dto)
      ? { ...dto, publishedName: makeUnique(`${dto.publishedName}Patch`, names) }
      : dto;
    if (patch !== dto)
      classes.push(
        Object.assign(patch, {
          name: `${dto.name}${patch.publishedName.slice(dto.publishedName.length)}`,
        }),
      );
    patches.set(dto, patch).set(patch, patch);
    patch.properties = dto.properties.map(strip);
    return patch;
  };
  const strip = <Value extends Schema>({ default: _default, ...schema }: Value): Value => {
    const { class: dto, properties, additionalProperties: values, oneOf, discriminator } = schema;
    return {
      ...schema,
      ...(dto && { class: toPatch(dto) }),
      ...(properties && { properties: properties.map(strip) }),
      ...(typeof values === 'object' && { additionalProperties: strip(values) }),
      ...(oneOf && { oneOf: oneOf.map(strip) }),
      ...(discriminator && {
        discriminator: {
          ...discriminator,
          mapping: Object.fromEntries(
            Object.entries(discriminator.mapping).map(([value, each]) => [value, toPatch(each)]),
          ),
        },
      }),
    } as Value;
  };
  for (const { method, body, implementation, operationId } of operations) {
    if (method !== 'patch' || body === undefined || !hasDefault(body.schema)) continue;
    notes.add('what a request omits keeps its value, also if it has a default.', operationId);
    Object.assign(body, { schema: strip(body.schema) });
    if ('sent' in implementation && implementation.sent)
      Object.assign(implementation.sent, { dto: toPatch(implementation.sent.dto) });
  }
}
