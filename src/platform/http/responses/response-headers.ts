import { applyDecorators } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/** A response header, in the form of the OpenAPI document. */
export interface ResponseHeader {
  readonly description: string;
  readonly schema: object;
}

/**
 * The prefix of the extensions with which decorators declare headers of the successful responses of an
 * operation. `createDocument` adds them to the responses and removes the extensions.
 */
export const RESPONSE_HEADER = 'x-response-header-';

/** Declares headers of the successful responses of an operation in the OpenAPI document. */
export function ApiResponseHeaders(
  headers: Readonly<Record<string, ResponseHeader>>,
): MethodDecorator {
  return applyDecorators(
    ...Object.entries(headers).map(([name, header]) =>
      ApiExtension(`${RESPONSE_HEADER}${name}`, header),
    ),
  );
}
