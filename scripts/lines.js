/**
 * Counts the lines of each room, and fails if one is above its limit: raising a limit is a commit that says what the
 * lines buy. `--write` writes the limits to docs/architecture.md. Images, snapshots and what a fork owns do not count.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/architecture.md';

/** Room, limit of lines, and what they buy. A file belongs to the room with the longest path that it begins with. */
const ROOMS = [
  [
    'src/platform/config/',
    455,
    'one table of environment variables, validated at startup; the format of API keys',
  ],
  [
    'src/platform/errors/',
    95,
    '`ApiError`, an exception of Nest, and the table of error codes; no I/O',
  ],
  ['src/platform/logging/', 85, 'JSON lines in production, readable text otherwise'],
  ['src/platform/validation/', 820, '`@Property`: JSON Schema that is published and enforced'],
  [
    'src/platform/http/',
    1390,
    'what is below Nest: malformed requests, bodies, time limits, a shutdown that loses no request',
  ],
  ['src/platform/metrics/', 345, 'Prometheus metrics on a port of their own'],
  [
    'src/platform/database/',
    2915,
    'both databases, outages, group commit, lists as bytes that are never stale',
  ],
  ['src/platform/auth/', 895, 'API keys, scopes and rate limits'],
  ['src/platform/idempotency/', 860, '`@IdempotencyKey()`: requests that happen once'],
  ['src/platform/deprecation/', 70, 'deprecation, stability and sunset dates'],
  ['src/platform/health/', 110, '`/livez` and `/readyz`'],
  ['src/platform/openapi/', 710, 'the OpenAPI document and Swagger UI'],
  [
    'src/platform/resource/',
    895,
    'the resource kit: list, page, create, read, replace, patch and delete for modules',
  ],
  [
    'src/platform/application/',
    300,
    '`createApp`, the order of guards, pipe and filter, the data source, the process',
  ],
  ['src/platform/', 155, 'the public names, and `@Feature`'],
  ['src/cli/', 565, 'the commands `keys`, `backup`, `db-copy`, `migrations` and `openapi`'],
  [
    'test/platform/',
    18250,
    'a test of each promise, over HTTP against real databases; what takes minutes is in `slow/`',
  ],
  ['tools/generator/', 5485, 'modules from contracts: `read`, `plan` and `write`'],
  ['tools/openapi/', 1210, '`openapi:check`, and `conformance`, which checks a deployment'],
  ['tools/bench/', 1100, 'the benchmark and its baselines'],
  ['docs/', 2090, 'pages for clients, operators and teams, CONTRIBUTING and SECURITY included'],
  ['deploy/', 1265, 'alert rules, a dashboard, a systemd unit, nginx, Kubernetes'],
  ['examples/', 1260, 'clients, and modules of a whole Petstore, which teams copy'],
];
const NOT_COUNTED = /\.(png|snap|d\.ts)$|^tools\/bench\/RESULTS\.md$/;

const room = (file) =>
  ROOMS.map(([path]) => path)
    .filter((path) => file.startsWith(path))
    .toSorted((a, b) => b.length - a.length)[0];
const lines = new Map(ROOMS.map(([path]) => [path, 0]));
const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' })
  .split('\0')
  .filter(Boolean);
for (const file of files.filter((each) => !NOT_COUNTED.test(each))) {
  const path = /^(CONTRIBUTING|SECURITY)\.md$/.test(file) ? 'docs/' : room(file);
  if (path !== undefined)
    lines.set(path, lines.get(path) + readFileSync(file, 'utf8').split('\n').length - 1);
}
const page = readFileSync(PAGE, 'utf8');
const rows = ROOMS.map(([path, limit, buys]) => `| [${path}](../${path}) | ${limit} | ${buys} |`);
const table = page.replace(/(?<=\n\|---\|--:\|---\|\n)(\|.*\n)+/, `${rows.join('\n')}\n`);
if (process.argv.includes('--write')) writeFileSync(PAGE, table);
else if (table !== page) throw new Error(`${PAGE} has other limits: run npm run lines -- --write`);

for (const [path, limit] of ROOMS) console.log(`${lines.get(path)} of ${limit}`.padStart(16), path);
console.log(String([...lines.values()].reduce((sum, each) => sum + each)).padStart(16), 'lines');
const above = ROOMS.filter(([path, limit]) => lines.get(path) > limit).map(([path]) => path);
if (above.length > 0)
  throw new Error(`More lines than the limit of scripts/lines.js: ${above.join(', ')}`);
