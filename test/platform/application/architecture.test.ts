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
  it('contain the name of the original product only in product.ts, and in a released migration', async () => {
    const migration = 'platform/idempotency/migrations/1763600000007-keep-idempotency-records.ts';
    // features.ts has the names of modules.
    const others = ['product.ts', 'features.ts', migration];
    expect(await findMentions(/petstore/i, ...others)).toEqual([]);
  });

  it('import nothing of the categories', async () => {
    expect(await findMentions(/categor/i, 'features.ts', 'product.ts')).toEqual([]);
  });
});
