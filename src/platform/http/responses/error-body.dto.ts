import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ERROR_CODE } from '../../errors/error-codes.js';

/** Bytes of a message in JSON: no error response exceeds 4 KB. */
export const MAX_MESSAGE_SIZE = 3900;

/** The body of every error response, with exactly these properties. */
@ApiSchema({ name: 'Error', description: 'The body of every error response.' })
export class ErrorBody {
  @ApiProperty({
    description: 'Machine-readable error code.',
    pattern: ERROR_CODE.source,
    maxLength: 64,
    example: 'UNAUTHORIZED',
  })
  code!: string;

  @ApiProperty({
    description: 'Human-readable description.',
    maxLength: MAX_MESSAGE_SIZE,
    example: 'The API key is missing: send Authorization: Bearer <API_KEY>.',
  })
  message!: string;

  @ApiProperty({
    type: 'integer',
    format: 'int32',
    minimum: 400,
    maximum: 599,
    description: 'The HTTP status code of the response.',
    example: 401,
  })
  status!: number;
}
