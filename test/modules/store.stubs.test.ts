/*
 * The published operation of store, which returns 501 until a team implements it. `generate -- resource`
 * deletes this file when it replaces the operation; if you implement it by hand, delete it, too.
 */
import { StoreModule } from '../../src/modules/store/store.module.js';
import { useApp } from '../platform/index.js';

const app = useApp({ features: [StoreModule] });

describe('GET /v1/store/orders', () => {
  it('returns 501 and is not deprecated', async () => {
    const response = await app.send('GET', '/v1/store/orders');
    expect(response).toBeError('NOT_IMPLEMENTED', 'Not implemented.');
    expect(response.headers).not.toHaveProperty('deprecation');
    expect(response.headers).not.toHaveProperty('sunset');
  });
});
