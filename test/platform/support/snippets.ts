import { readFile } from 'node:fs/promises';

/** A code block of a page of the documentation. */
export interface Block {
  readonly language: string;
  readonly code: string;
  /** The reason why no test runs the block, from a line `<!-- not run: … -->` before it. */
  readonly notRun?: string;
}

/** A code block, and what it prints: the `text` block after it. */
export interface Snippet {
  readonly code: string;
  readonly output: string;
}

/** The character that a program of `joinSnippets` prints after each snippet. */
const SEPARATOR = '\f';

/**
 * Reads the code blocks of a page, in their order.
 *
 * @param path relative to the project
 */
export async function readBlocks(path: string): Promise<Block[]> {
  const page = await readFile(path, 'utf8');
  const blocks = page.matchAll(/^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$/gms);
  return Array.from(blocks, ([, notRun, language, code]) => ({
    language: language!,
    code: code!,
    ...(notRun !== undefined && { notRun }),
  }));
}

/**
 * Reads the code blocks of a page in a language.
 *
 * @param path relative to the project
 * @throws {Error} if one of them is not followed by its output
 */
export async function readSnippets(path: string, language: 'sh' | 'ts'): Promise<Snippet[]> {
  const blocks = await readBlocks(path);
  return blocks.flatMap(({ language: name, code }, index) => {
    if (name !== language) return [];
    const next = blocks[index + 1];
    if (next?.language !== 'text')
      throw new Error(`${path} does not show what this prints:\n${code}`);
    return [{ code, output: next.code }];
  });
}

/** Joins snippets to one program, in which later ones use what earlier ones have declared. */
export function joinSnippets(snippets: readonly Snippet[], language: 'sh' | 'ts'): string {
  const separate = language === 'sh' ? "printf '\\f'\n" : `console.log('\\f');\n`;
  return snippets.map(({ code }) => code + separate).join('');
}

/** Splits the output of a program of `joinSnippets` into the output of each snippet. */
export function splitOutput(stdout: string): string[] {
  return stdout
    .split(SEPARATOR)
    .slice(0, -1)
    .map((output) => `${output.replaceAll('\r', '').trim()}\n`);
}
