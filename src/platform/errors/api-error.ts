import { HttpException } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ERROR_CODES, type ErrorCode } from './error-codes.js';

/** The body of every error answer, with exactly these properties. */
@ApiSchema({ name: 'Error' })
export class ErrorBody {
  @ApiProperty({ description: 'Machine-readable error code.', example: 'UNAUTHORIZED' })
  code!: string;

  @ApiProperty({
    description: 'Human-readable description.',
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

/** An error that the client gets to see, by its code; the table `ERROR_CODES` gives its status. */
export class ApiError extends HttpException {
  /**
   * @param code a row of `ERROR_CODES`
   * @param message what is wrong, for a human reader
   * @param headers response headers that belong to the error, such as `Allow`
   * @param cause the error behind it, for the log
   */
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
    cause?: unknown,
  ) {
    super(message, ERROR_CODES[code].status, { cause });
  }

  get body(): ErrorBody {
    return { code: this.code, message: this.message, status: this.getStatus() };
  }
}
