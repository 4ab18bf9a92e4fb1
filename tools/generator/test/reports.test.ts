import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { planModule } from '../generator.js';
import { readDocument } from '../read/document.js';
import type { Service } from '../read/contract.js';
import { formatReport } from '../report.js';

const NO_SERVICE: Service = { routes: new Set(), schemas: new Set(), operationIds: new Set() };
const ROOT = join(import.meta.dirname, '..', '..', '..');
const OWN = join(import.meta.dirname, 'contracts');
/** Public documents, which are not copied to the repository. */
const PUBLIC = join(ROOT, '..', 'shared', 'contracts');

const report = async (path: string): Promise<string> => {
  const root = await readDocument(path);
  return formatReport(planModule(root, { name: 'x', source: 'x.openapi.json' }, NO_SERVICE, []));
};

describe('the report of a contract in the style of a framework', () => {
  it.each(['springdoc', 'nest', 'rails', 'odd-names', 'sqlmodel', 'django', 'spring-data'])(
    '%s is as before',
    async (name) => {
      expect(await report(join(OWN, `${name}.openapi.yaml`))).toMatchSnapshot();
    },
  );
});

const hasPublicDocuments = existsSync(PUBLIC);
if (!hasPublicDocuments) process.stderr.write(`Skipped: ${PUBLIC} is missing.\n`);

// Skipped rather than not declared: Jest fails if a test of a snapshot does not exist.
(hasPublicDocuments ? describe : describe.skip)('the report of a public document', () => {
  it.each(['museum', 'oai-petstore', 'oai-petstore-expanded', 'swagger-petstore'])(
    '%s.openapi.yaml is as before',
    async (name) => {
      expect(await report(join(PUBLIC, `${name}.openapi.yaml`))).toMatchSnapshot();
    },
  );
});
