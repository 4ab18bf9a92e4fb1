/** A part of `npm run openapi`: makes the collection for Postman from `openapi.json`. */
import { readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { pathToFileURL } from 'node:url';
import Converter from 'openapi-to-postmanv2';

/** @throws {Error} where the document cannot be converted */
export async function renderCollection(): Promise<string> {
  const made = await promisify(Converter.convertV2)(
    { type: 'string', data: await readFile('openapi.json', 'utf8') },
    { folderStrategy: 'Tags', includeAuthInfoInExample: false, parametersResolution: 'Example' },
  );
  if (!made?.result) throw new Error(`openapi.json cannot be converted: ${made?.reason}`);
  // The ids are new each time, and nothing needs them.
  const withoutIds = (key: string, value: unknown): unknown =>
    key === '_postman_id' || (key === 'id' && typeof value === 'string') ? undefined : value;
  return `${JSON.stringify(made.output![0]!.data, withoutIds, 2)}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await writeFile('examples/petstore.postman_collection.json', await renderCollection());
}
