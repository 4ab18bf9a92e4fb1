import { Module } from '@nestjs/common';
import { FEATURES } from './features.js';

/** The root module. The platform adds its own modules, and the global guards, pipe and filter in their order. */
@Module({ imports: [...FEATURES] })
export class AppModule {}
