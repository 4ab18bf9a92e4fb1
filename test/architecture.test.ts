import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

const SRC = join(import.meta.dirname, '..', 'src');

/** Returns the files of src that mention something. */
async function findMentions(pattern: RegExp): Promise<string[]> {
  const files = (await readdir(SRC, { recursive: true })).filter((name) => name.endsWith('.ts'));
  const found = await Promise.all(
    files.map(async (name) => pattern.test(name + (await readFile(join(SRC, name), 'utf8')))),
  );
  return files.filter((_name, index) => found[index]).toSorted();
}

describe('the source', () => {
  it('has the name of the product only in product.ts, and in a released migration', async () => {
    expect(await findMentions(/petstore/i)).toEqual([
      'platform/config/product.ts',
      'platform/idempotency/migrations/1763600000007-keep-idempotency-records.ts',
    ]);
  });

  it('mentions the categories only in their module and in the list of features', async () => {
    const files = await findMentions(/categor/i);
    expect(files.filter((name) => !name.startsWith('modules/categories/'))).toEqual([
      'features.ts',
    ]);
  });
});
