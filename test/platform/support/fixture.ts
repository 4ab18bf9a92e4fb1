/**
 * Adds the categories to the features, in the tests and in the processes that they start: they are the resource with which
 * the tests test the platform, also if the service has others instead (docs/adopting.md).
 */
import type { Type } from '@nestjs/common';
import { FEATURES } from '../../../src/features.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';

/** The features without the fixture. */
export const SERVICE_FEATURES: readonly Type[] = [...FEATURES];

if (!FEATURES.includes(CategoriesModule)) (FEATURES as Type[]).unshift(CategoriesModule);
