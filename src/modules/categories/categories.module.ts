import { Feature } from '../../platform/index.js';
import { CategoriesController } from './categories.controller.js';
import { CategoriesService } from './categories.service.js';
import { CategoryEntity } from './category.entity.js';
import { CreateCategories1763600000002 } from './migrations/1763600000002-create-categories.js';

@Feature({
  tag: { name: 'categories', description: 'Categories classify pets: dog, cat, rabbit' },
  entities: [CategoryEntity],
  migrations: [CreateCategories1763600000002],
  controllers: [CategoriesController],
  providers: [CategoriesService],
})
export class CategoriesModule {}
