import { ApiSchema, OmitType } from '@nestjs/swagger';
import { type Complete, Property } from '../../platform/index.js';
import type { CategoryEntity } from './category.entity.js';

/** A category as clients see it. */
@ApiSchema({ description: 'A category of pets.' })
export class Category {
  @Property({
    type: 'integer',
    minimum: 1,
    description: 'Assigned by the service on creation.',
    example: 1,
  })
  id!: number;

  @Property({
    type: 'string',
    minLength: 1,
    maxLength: 100,
    notBlank: true,
    description: 'Category name.',
    example: 'dog',
  })
  name!: string;

  @Property({
    type: 'string',
    maxLength: 1000,
    optional: true,
    description: 'Short description of the category.',
    example: 'Dogs of every breed and size',
  })
  description?: string;
}

/** The body of a create request. */
@ApiSchema({ description: 'The category to create.' })
export class NewCategory extends OmitType(Category, ['id']) {}

/** Converts a row to the representation that clients see: a description that was not given is omitted. */
export function toCategory({ id, name, description }: CategoryEntity): Complete<Category> {
  return { id, name, description: description ?? undefined };
}
