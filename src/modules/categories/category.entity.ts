import { Column, Entity } from 'typeorm';
import { IdColumn } from '../../platform/index.js';

/** A row of the table `categories`. */
@Entity('categories')
export class CategoryEntity {
  @IdColumn('pk_categories', { check: 'ck_categories_id' })
  id!: number;

  @Column('varchar', { length: 100 })
  name!: string;

  @Column('varchar', { length: 1000, nullable: true })
  description!: string | null;
}
