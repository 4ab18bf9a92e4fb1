import { renderDocument } from '../../../src/cli/openapi.js';

/* oxlint-disable-next-line typescript/no-explicit-any -- the tests change arbitrary parts of a document */
export type Document = any;

/** Returns the document that `npm run openapi` writes, without the operations of other modules. */
export async function readPublished(): Promise<Document> {
  const document: Document = JSON.parse(await renderDocument());
  return { ...document, paths: { '/categories': document.paths['/categories'] } };
}

/**
 * Returns a changed copy of a document.
 *
 * @param changes new values by their paths, whose keys are separated by spaces; undefined removes a value
 */
export function edit(document: Document, changes: Readonly<Record<string, unknown>>): Document {
  // In Jest, the arrays of structuredClone are not equal to those of the test.
  const copy: Document = JSON.parse(JSON.stringify(document));
  for (const [place, value] of Object.entries(changes)) {
    const keys = place.split(' ');
    const last = keys.pop()!;
    const parent = keys.reduce((part, key) => (part[key] ??= {}), copy);
    if (value === undefined) delete parent[last];
    else parent[last] = value;
  }
  return copy;
}
