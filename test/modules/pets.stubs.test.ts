/*
 * The published operation of pets, which returns 501 until a team implements it. `generate -- resource`
 * deletes this file when it replaces the operation; if you implement it by hand, delete it, too.
 */
import { PetsModule } from '../../src/modules/pets/pets.module.js';
import { useApp } from '../platform/index.js';

const { jest } = import.meta;
const SUNSET = 'Mon, 01 Nov 2027 00:00:00 GMT';

const app = useApp({ features: [PetsModule] });
afterEach(() => jest.restoreAllMocks());

describe('GET /v1/pets/{petId}', () => {
  it('returns 501 before its sunset and 410 from then on', async () => {
    for (const [time, error] of [
      [Date.parse(SUNSET) - 1, 'NOT_IMPLEMENTED'],
      [Date.parse(SUNSET), 'GONE'],
    ] as const) {
      jest.spyOn(Date, 'now').mockReturnValue(time);
      const response = await app.send('GET', '/v1/pets/any%20thing?x=y');
      expect(response).toBeError(error);
      expect(response.headers).toMatchObject({ deprecation: '@1793491200', sunset: SUNSET });
    }
  });
});
