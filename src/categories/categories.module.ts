import { Module } from '@nestjs/common';
import { CategoriesController } from './categories.controller.js';
import { CategoriesService } from './categories.service.js';
import { CategoriesSnapshot } from './categories.snapshot.js';

@Module({
  controllers: [CategoriesController],
  providers: [CategoriesService, CategoriesSnapshot],
})
export class CategoriesModule {}
