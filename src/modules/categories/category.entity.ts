import { Check, Column, Entity } from 'typeorm';
import { MAX_ID } from '../../platform/config/max-id.js';
import { IdColumn } from '../../platform/database/statements/columns.js';

/** A row of the table `categories`. */
@Entity('categories')
@Check('ck_categories_id', `"id" <= ${MAX_ID}`)
export class CategoryEntity {
  @IdColumn('pk_categories')
  id!: number;

  @Column('varchar', { length: 100 })
  name!: string;

  @Column('varchar', { length: 1000, nullable: true })
  description!: string | null;
}
