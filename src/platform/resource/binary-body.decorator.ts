import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiResponse } from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiError } from '../errors/api-error.js';
import { AcceptBinaryBody, type BinaryBodyOptions } from '../http/body/accepted-body.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { withMethodDecorators } from '../http/with-method-decorators.js';

const readBody = createParamDecorator((_data, context: ExecutionContext): Buffer => {
  const { body } = context.switchToHttp().getRequest<Request>();
  if (!Buffer.isBuffer(body) || body.length === 0)
    throw new ApiError('VALIDATION_FAILED', 'request body is required.');
  return body;
});

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
  return withMethodDecorators(
    readBody(),
    AcceptBinaryBody({ limit, contentTypes }),
    ApiConsumes(...contentTypes),
    ApiBody({
      required: true,
      description: `Up to ${limit} bytes.`,
      schema: { type: 'string', format: 'binary', maxLength: limit },
    }),
    ApiResponse({ status: 400, type: ErrorBody, description: 'The body is missing.' }),
    ApiResponse({ status: 413, type: ErrorBody, description: 'The body is too large.' }),
    ApiResponse({ status: 415, type: ErrorBody, description: 'The media type is another one.' }),
  );
}
