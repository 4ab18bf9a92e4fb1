import { Module } from '@nestjs/common';
import { PetsController } from './pets.controller.js';

@Module({ controllers: [PetsController] })
export class PetsModule {}
