import { applyDecorators } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/**
 * The prefix of the extensions with which decorators declare headers of the successful responses of an
 * operation. `createDocument` adds them to the responses and removes the extensions.
 */
export const RESPONSE_HEADER = 'x-response-header-';

/** Declares headers of the successful responses of an operation in the OpenAPI document. */
export function ApiResponseHeaders(
  headers: Readonly<Record<string, { description: string; schema: object }>>,
): MethodDecorator {
  return applyDecorators(
    ...Object.entries(headers).map(([name, header]) =>
      ApiExtension(`${RESPONSE_HEADER}${name}`, header),
    ),
  );
}
