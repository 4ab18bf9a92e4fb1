import { Check, Column, Entity, PrimaryGeneratedColumn } from 'typeorm';
import { MAX_ID } from '../../platform/database/columns.js';
import type { Category } from './category.dto.js';

/** A category as it is kept. */
@Entity('categories')
@Check('ck_categories_id', `"id" <= ${MAX_ID}`)
export class CategoryEntity {
  @PrimaryGeneratedColumn({ type: 'bigint', primaryKeyConstraintName: 'pk_categories' })
  id!: number;

  @Column('varchar', { length: 100 })
  name!: string;

  @Column('varchar', { length: 1000, nullable: true })
  description!: string | null;
}

/** A row of a query. PostgreSQL gives a bigint as text. */
export type CategoryRow = Omit<CategoryEntity, 'id'> & { readonly id: number | string };

/** A category as clients see it: without a description that was not given. */
export function toCategory({ id, name, description }: CategoryRow): Category {
  return { id: Number(id), name, description: description ?? undefined };
}
