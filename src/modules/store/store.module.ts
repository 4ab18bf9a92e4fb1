import { Feature } from '../../platform/index.js';
import { StoreController } from './store.controller.js';

@Feature({
  tag: { name: 'store', description: 'Placeholders: always 501 for now' },
  controllers: [StoreController],
})
export class StoreModule {}
