import { Reflector } from '@nestjs/core';

/** The media type of a JSON merge patch (RFC 7396, section 4). */
export const MERGE_PATCH_CONTENT_TYPE = 'application/merge-patch+json';

/** The bodies that an operation accepts instead of JSON. */
export interface BinaryBodyOptions {
  /** The maximum size in bytes, also after decompression. */
  readonly limit: number;
  readonly contentTypes: readonly string[];
}

/** Makes an operation accept bytes instead of JSON. */
export const AcceptBinaryBody = Reflector.createDecorator<BinaryBodyOptions>();
