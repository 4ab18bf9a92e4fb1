import { ApiProperty, ApiSchema } from '@nestjs/swagger';

/** The body of every error response, with exactly these properties. */
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
