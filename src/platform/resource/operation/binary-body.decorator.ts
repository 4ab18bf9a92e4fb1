import { ApiBody, ApiConsumes } from '@nestjs/swagger';
import { ApiError } from '../../errors/api-error.js';
import { AcceptBinaryBody, type BinaryBodyOptions } from '../../http/body/accepted-body.js';
import { RequestParam } from '../../http/request-param.js';

/**
 * Makes an operation accept bytes instead of JSON, passes them to the handler as a Buffer, and declares
 * the body and its errors in the OpenAPI document. `BodyParserGuard` checks the type and the size.
 *
 * @throws {ApiError} VALIDATION_FAILED if the body is missing
 */
export function BinaryBody({
  limit,
  contentTypes = ['application/octet-stream'],
}: Pick<BinaryBodyOptions, 'limit'> & Partial<BinaryBodyOptions>): ParameterDecorator {
  return RequestParam(
    ({ body }) => {
      if (!Buffer.isBuffer(body))
        throw new ApiError('VALIDATION_FAILED', 'request body is required.');
      return body;
    },
    AcceptBinaryBody({ limit, contentTypes }),
    ApiConsumes(...contentTypes),
    ApiBody({
      required: true,
      description: `Up to ${limit} bytes.`,
      schema: { type: 'string', format: 'binary', maxLength: limit },
    }),
  );
}
