import { readdir, readFile } from 'node:fs/promises';

/** Returns the files of src, without those of modules and some others, that mention something. */
async function findMentions(pattern: RegExp, ...except: string[]): Promise<string[]> {
  const files = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts'));
  const found = await Promise.all(
    files.map(async (name) => pattern.test(name + (await readFile(`src/${name}`, 'utf8')))),
  );
  return files.filter(
    (name, index) => found[index] && !name.startsWith('modules/') && !except.includes(name),
  );
}

describe('the platform and the commands', () => {
  it('name the original product, and its resource, only in the files of a product', async () => {
    const migration = 'platform/idempotency/migrations/1763600000007-keep-idempotency-records.ts';
    // features.ts has the names of modules.
    const others = ['product.ts', 'features.ts', migration];
    expect(await findMentions(/petstore/i, ...others)).toEqual([]);
    expect(await findMentions(/categor/i, ...others)).toEqual([]);
  });
});
