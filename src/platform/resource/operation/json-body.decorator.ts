import { ApiBody, ApiConsumes } from '@nestjs/swagger';
import type { Request } from 'express';
import { MERGE_PATCH_CONTENT_TYPE } from '../../http/body/accepted-body.js';
import { RequestParam } from '../../http/request-param.js';
import { toDocument } from '../../validation/property.js';
import { isObject, type Schema } from '../../validation/schema.js';
import { getFields } from '../../validation/schema-rules.js';
import { validateJson } from '../../validation/validation.pipe.js';

declare module 'node:http' {
  interface IncomingMessage {
    /** The read-only properties that its body repeats. */
    readOnlyProperties?: Readonly<Record<string, unknown>>;
  }
}

/** What differs from a body that is declared with `@Body`. */
export interface JsonBodyOptions {
  readonly description?: string;
  /** If it is false, the handler gets undefined for a request without a body. */
  readonly required?: boolean;
  /** Whether the body of a PATCH is a JSON merge patch (RFC 7396): its media type is documented, too. */
  readonly mergePatch?: boolean;
  /** Whether it may repeat read-only properties, as one that was read and modified does. `Resource.replace` compares them. */
  readonly repeatsReadOnly?: boolean;
}

/**
 * Passes a body that `@Body` cannot describe to a handler, such as an array of DTOs, and declares it in the OpenAPI
 * document.
 *
 * @throws {ApiError} VALIDATION_FAILED if it is invalid
 */
export function JsonBody(
  schema: Schema,
  {
    description,
    required = true,
    mergePatch = false,
    repeatsReadOnly = false,
  }: JsonBodyOptions = {},
): ParameterDecorator {
  return RequestParam(
    (request) => {
      const body: unknown = repeatsReadOnly
        ? takeReadOnly(schema, request, request.body)
        : request.body;
      return body === undefined && !required ? undefined : validateJson(schema, body);
    },
    ApiBody({ description, required, schema: toDocument(schema) }),
    ...(mergePatch ? [ApiConsumes(MERGE_PATCH_CONTENT_TYPE, 'application/json')] : []),
  );
}

/** Moves the read-only properties of a body to its request, and returns the others. */
export function takeReadOnly(schema: Schema, request: Request, body: unknown): unknown {
  if (typeof schema.type !== 'function' || !isObject(body)) return body;
  const { declared } = getFields(schema.type());
  const isReadOnly = ([name]: [string, unknown]): boolean => declared.get(name)?.readOnly === true;
  const properties = Object.entries(body);
  request.readOnlyProperties = Object.fromEntries(properties.filter(isReadOnly));
  return Object.fromEntries(properties.filter((each) => !isReadOnly(each)));
}
