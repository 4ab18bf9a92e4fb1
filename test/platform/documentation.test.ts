import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ERROR_CODES } from '../../src/platform/errors/error-codes.js';
import { renderCapacity } from '../../tools/bench/report.js';

const ROOT = join(import.meta.dirname, '..', '..');

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
      ...(await readdir(ROOT)).filter((name) => name.endsWith('.md')),
      ...(await readdir(join(ROOT, 'docs'), { recursive: true }))
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`),
    ];
    const broken: string[] = [];
    let links = 0;
    for (const document of documents) {
      const text = await readFile(join(ROOT, document), 'utf8');
      for (const [, link] of text.matchAll(/\](?:\(|: )(?!https?:)([^)\s]+)(?:\)|$)/gm)) {
        links++;
        const [path, anchor] = link!.split('#');
        const target = path === '' ? join(ROOT, document) : join(ROOT, dirname(document), path!);
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

describe('docs/errors.md', () => {
  it('lists the error codes with the statuses and descriptions of ERROR_CODES', async () => {
    const page = await readFile(join(ROOT, 'docs/errors.md'), 'utf8');
    const shown = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \| (.*) \|$/gm)];
    expect(
      shown.map(([, code, status, description]) => [code, Number(status), description]),
    ).toEqual(
      Object.entries(ERROR_CODES).map(([code, { status, description }]) => [
        code,
        status,
        description,
      ]),
    );
  });
});

/** Returns what a page quotes of the last run of the benchmark. */
const getQuoted = (page: string): string | undefined =>
  /^<!-- npm run bench -->\n(.+)\n<!-- \/npm run bench -->$/ms.exec(page)?.[1];

describe('README.md', () => {
  it('quotes about performance what the last run of the benchmark produced', async () => {
    const [, summary] = (await readFile(join(ROOT, 'tools/bench/RESULTS.md'), 'utf8')).split(
      '\n\n',
    );
    // A fork writes its own, which may quote nothing.
    const quoted = getQuoted(await readFile(join(ROOT, 'README.md'), 'utf8'));
    expect([summary, undefined]).toContain(quoted);
  });
});

describe('docs/runbook.md', () => {
  it('has the capacities that the last run of the benchmark measured', async () => {
    const page = await readFile(join(ROOT, 'docs/runbook.md'), 'utf8');
    const table = getQuoted(page)!.trim();
    const results = await readFile(join(ROOT, 'tools/bench/RESULTS.md'), 'utf8');
    expect(table).toBe(renderCapacity(results));
    expect(table.split('\n').length).toBeGreaterThan(7);
    expect(table).toMatch(/^\| list of 10 \| [\d,]{5,} \| [\d.]+ \|$/m);
  });
});
