import { readFile } from 'node:fs/promises';

const read = (path: string): Promise<string> => readFile(path, 'utf8');

describe('docs/platform.md', () => {
  it('lists the public names of the platform and of its tests', async () => {
    // The source, because types are not exported when it runs.
    const source = (await read('src/platform/index.ts')) + (await read('test/platform/index.ts'));
    const lists = [...source.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, list]) => list!);
    const exported = lists.flatMap((list) => list.replaceAll(/\btype /g, '').match(/\w+/g)!);
    const cells = [...(await read('docs/platform.md')).matchAll(/^\| (`[^|]*) \|/gm)];
    const listed = cells.flatMap(([, cell]) => cell!.match(/\w+/g)!);

    expect(exported.length).toBeGreaterThan(40);
    expect(listed.toSorted()).toEqual(exported.toSorted());
  });
});
