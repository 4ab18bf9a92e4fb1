import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { planModule } from '../generator.js';
import { readDocument } from '../read/document.js';
import type { Service } from '../read/contract.js';
import { formatReport } from '../report.js';

const NO_SERVICE: Service = { routes: new Set(), schemas: new Set(), operationIds: new Set() };
const ROOT = join(import.meta.dirname, '..', '..', '..');
const OWN = join(import.meta.dirname, 'contracts');
/** Public documents, which are not copied to the repository. */
const SHARED = join(ROOT, '..', 'shared', 'contracts');

const report = async (path: string): Promise<string> => {
  const root = await readDocument(path);
  return formatReport(planModule(root, { name: 'x', source: 'x.openapi.json' }, NO_SERVICE, []));
};

const isContract = (file: string): boolean => /\.openapi\.(yaml|json)$/.test(file);

describe('the report of a contract in the style of a framework', () => {
  it.each(['springdoc', 'nest', 'rails', 'odd-names', 'sqlmodel', 'django', 'spring-data'])(
    '%s is as before',
    async (name) => {
      expect(await report(join(OWN, `${name}.openapi.yaml`))).toMatchSnapshot();
    },
  );
});

const shared = existsSync(SHARED) ? (await readdir(SHARED)).filter(isContract) : [];
if (shared.length === 0)
  process.stderr.write('Skipped: ../shared/contracts with public documents is missing.\n');

(shared.length === 0 ? describe.skip : describe)('the report of a public document', () => {
  it.each(shared.length === 0 ? ['none'] : shared)('%s is as before', async (file) => {
    expect(await report(join(SHARED, file))).toMatchSnapshot();
  });
});
