import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Returns the heading anchors of a Markdown file, as GitHub generates them. */
const getAnchors = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );

describe('the documentation', () => {
  it('links only to existing files and headings', async () => {
    const documents = [
      ...(await readdir('.')).filter((name) => name.endsWith('.md')),
      ...(await readdir('docs', { recursive: true }))
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`),
    ];
    const broken: string[] = [];
    let links = 0;
    for (const document of documents) {
      const text = await readFile(document, 'utf8');
      for (const [, link] of text.matchAll(/\](?:\(|: )(?!https?:)([^)\s]+)(?:\)|$)/gm)) {
        links++;
        const [path, anchor] = link!.split('#');
        const target = path === '' ? document : join(dirname(document), path!);
        const found =
          existsSync(target) &&
          (anchor === undefined || getAnchors(await readFile(target, 'utf8')).includes(anchor));
        if (!found) broken.push(`${document}: ${link}`);
      }
    }
    expect(links).toBeGreaterThan(30);
    expect(broken).toEqual([]);
  });
});

describe('docs/architecture.md', () => {
  it('names classes and functions of the source', async () => {
    const page = await readFile('docs/architecture.md', 'utf8');
    const [requests] = /^## Three requests$.*?(?=^## )/ms.exec(page)!;
    const files = (await readdir('src', { recursive: true })).filter((name) =>
      name.endsWith('.ts'),
    );
    const source = (await Promise.all(files.map((name) => readFile(`src/${name}`, 'utf8')))).join(
      '\n',
    );
    const names = [...requests.matchAll(/`@?([a-z]\w+(?:\.\w+)*)`/gi)].flatMap(([, path]) =>
      path!.split('.').filter((name) => !/^[A-Z]+$/.test(name)),
    );
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(source))).toEqual([]);
  });
});

describe('README.md', () => {
  it('quotes about performance what the last run of the benchmark produced', async () => {
    const page = await readFile('README.md', 'utf8');
    const [, quoted] =
      /^<!-- npm run bench -->\n(.+)\n<!-- \/npm run bench -->$/ms.exec(page) ?? [];
    const results = await readFile('tools/bench/RESULTS.md', 'utf8');
    // A fork writes a README of its own, which may quote nothing.
    expect(quoted === undefined || results.includes(`\n${quoted}\n`)).toBe(true);
  });
});
