import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { hashPassword, verifyPassword } from '../../src/platform/resource/password.js';

/** Hashed at once, and those that wait. */
const CAPACITY = 2 + 30;

describe('a password', () => {
  it('is verified against its hash, which has a random salt', async () => {
    const [hash, other] = await Promise.all([hashPassword('pässword'), hashPassword('pässword')]);
    expect(hash).not.toBe(other);
    expect(await verifyPassword('pässword', hash)).toBe(true);
    expect(await verifyPassword('password', hash)).toBe(false);
  });

  it('that is hashed leaves threads for the compression of lists', async () => {
    let hashed = 0;
    const hashes = Array.from({ length: CAPACITY }, () => hashPassword('a').then(() => hashed++));
    await promisify(gzip)('[]');
    expect(hashed).toBeLessThan(CAPACITY / 4);
    await Promise.all(hashes);
  });

  it('is not hashed while too many others wait: 503', async () => {
    const hash = await hashPassword('a');
    const results = await Promise.allSettled([
      ...Array.from({ length: CAPACITY }, () => verifyPassword('a', hash)),
      ...Array.from({ length: 10 }, () => hashPassword('a')),
    ]);
    const error = { code: 'SERVICE_UNAVAILABLE', headers: { 'Retry-After': '1' } };
    for (const [index, result] of results.entries())
      expect(result).toMatchObject(index < CAPACITY ? { value: true } : { reason: error });
    expect(await verifyPassword('a', hash)).toBe(true);
  });
});
