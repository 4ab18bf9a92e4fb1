/** Makes the contract that `npm run generate -- resource <name>` writes: one text, and all operations. */
import { readFile } from 'node:fs/promises';
import { toPascalCase, toSentence, toSingular } from './names.js';
import type { Json } from './read/json.js';

/** @param name the plural of the resource */
export async function readResourceContract(name: string): Promise<Json> {
  const singular = toSingular(name);
  const names: Readonly<Record<string, string>> = {
    '{things}': name,
    '{Things}': toPascalCase(name),
    '{Thing}': toPascalCase(singular),
    '{thing}': toSentence(singular).toLowerCase(),
    '{title}': toSentence(name),
  };
  const text = await readFile('tools/generator/resource.json', 'utf8');
  return JSON.parse(text.replaceAll(/\{\w+\}/g, (each) => names[each] ?? each)) as Json;
}
