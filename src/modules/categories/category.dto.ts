import { OmitType } from '@nestjs/swagger';
import { StringProperty } from '../../platform/http/validation/string-property.decorator.js';
import { IdProperty } from '../../platform/http/validation/value-property.decorators.js';

/** A category as clients see it. */
export class Category {
  @IdProperty({ description: 'Assigned by the service on creation.' })
  id!: number;

  @StringProperty({
    minLength: 1,
    maxLength: 100,
    notBlank: true,
    description: 'Category name.',
    example: 'dog',
  })
  name!: string;

  @StringProperty({
    maxLength: 1000,
    optional: true,
    description: 'Short description of the category.',
    example: 'Dogs of every breed and size',
  })
  description?: string;
}

/** The body of a creation. */
export class NewCategory extends OmitType(Category, ['id']) {}
