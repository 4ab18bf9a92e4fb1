import { Feature } from '../../platform/index.js';
import { PetsController } from './pets.controller.js';

@Feature({
  tag: { name: 'pets', description: 'Placeholders: always 501 for now' },
  controllers: [PetsController],
})
export class PetsModule {}
