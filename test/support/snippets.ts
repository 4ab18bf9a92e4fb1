import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A code block of a page of the documentation, and the `text` block after it: what it prints. */
export interface Snippet {
  readonly code: string;
  readonly output: string;
}

/** What `joinSnippets` prints after each snippet. */
const SEPARATOR = '\f';

/**
 * Reads the code blocks of a page in a language.
 *
 * @param path relative to the project
 * @throws {Error} if one of them is not followed by its output
 */
export async function readSnippets(path: string, language: 'sh' | 'ts'): Promise<Snippet[]> {
  const page = await readFile(join(import.meta.dirname, '..', '..', path), 'utf8');
  const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  return blocks.flatMap(([, name, code], index) => {
    if (name !== language) return [];
    const [, next, output] = blocks[index + 1] ?? [];
    if (next !== 'text') throw new Error(`${path} does not show what this prints:\n${code}`);
    return [{ code: code!, output: output! }];
  });
}

/** Joins snippets to one program, in which later ones use what earlier ones have declared. */
export function joinSnippets(snippets: readonly Snippet[], language: 'sh' | 'ts'): string {
  const separate = language === 'sh' ? "printf '\\f'\n" : `console.log('\\f');\n`;
  return snippets.map(({ code }) => code + separate).join('');
}

/** Splits what the program of `joinSnippets` has printed: what each snippet printed. */
export function splitOutput(stdout: string): string[] {
  return stdout
    .split(SEPARATOR)
    .slice(0, -1)
    .map((output) => `${output.replaceAll('\r', '').trim()}\n`);
}
