import type { Type } from '@nestjs/common';
import { CategoriesModule } from './modules/categories/categories.module.js';
import { PetsModule } from './modules/pets/pets.module.js';
import { StoreModule } from './modules/store/store.module.js';

/** The features of the service. A new feature adds one line. */
export const FEATURES: readonly Type[] = [
  // One per line, so that two new features merge without a conflict in the formatting.
  CategoriesModule,
  PetsModule,
  StoreModule,
];
