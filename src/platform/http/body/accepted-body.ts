import { type CustomDecorator, SetMetadata } from '@nestjs/common';

/** The media type of a JSON merge patch (RFC 7396, section 4). */
export const MERGE_PATCH_CONTENT_TYPE = 'application/merge-patch+json';

/** What an operation accepts instead of JSON. */
export interface BinaryBodyOptions {
  /** The maximum size in bytes, also after decompression. */
  readonly limit: number;
  readonly contentTypes: readonly string[];
}

const BINARY_BODY = 'petstore:binary-body';

/** Makes an operation accept bytes instead of JSON. */
export function AcceptBinaryBody(options: BinaryBodyOptions): CustomDecorator {
  return SetMetadata(BINARY_BODY, options);
}

/** Returns what a handler accepts instead of JSON, if it accepts bytes. */
export function getBinaryBody(handler: object): BinaryBodyOptions | undefined {
  return Reflect.getMetadata(BINARY_BODY, handler) as BinaryBodyOptions | undefined;
}
