import { ApiProperty, OmitType } from '@nestjs/swagger';
import { MAX_ID } from '../database/schema.js';
import { Text } from '../http/text.decorator.js';

/** A category as clients see it. */
export class Category {
  @ApiProperty({
    type: 'integer',
    format: 'int64',
    minimum: 1,
    maximum: MAX_ID,
    description: 'Assigned by the service on creation.',
    example: 1,
  })
  id!: number;

  @Text({
    minLength: 1,
    maxLength: 100,
    notBlank: true,
    description: 'Category name.',
    example: 'dog',
  })
  name!: string;

  @Text({
    maxLength: 1000,
    optional: true,
    description: 'Short description of the category.',
    example: 'Dogs of every breed and size',
  })
  description?: string;
}

/** The body of a creation. */
export class NewCategory extends OmitType(Category, ['id']) {}
