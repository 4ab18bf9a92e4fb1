import type { Type } from '@nestjs/common';
import { ApiProperty, PartialType } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';

/** The media type of a JSON merge patch (RFC 7396, section 4). */
export const MERGE_PATCH_CONTENT_TYPE = 'application/merge-patch+json';

/** Every property is optional, and those that can be cleared may be null. */
type Patch<Body, Clearable extends keyof Body> = {
  [Name in keyof Body]?: Body[Name] | (Name extends Clearable ? null : never);
};

/**
 * Creates the DTO of a JSON merge patch (RFC 7396) from the DTO of a resource: an omitted property
 * stays unchanged, and null removes an optional one.
 *
 * @param clearable the optional properties
 */
export function MergePatch<Body, const Clearable extends string & keyof Body = never>(
  body: Type<Body>,
  clearable: readonly Clearable[] = [],
): Type<Patch<Body, Clearable>> {
  class MergePatchBody extends PartialType(body as Type<object>, { skipNullProperties: false }) {}
  for (const property of clearable) {
    IsOptional()(MergePatchBody.prototype, property);
    ApiProperty({ required: false, nullable: true })(MergePatchBody.prototype, property);
  }
  return MergePatchBody;
}
