/**
 * Counts the lines of each folder, and fails if one is above its limit: a commit that raises a limit says what the lines
 * are for. Images, snapshots and generated files do not count, such as the table of variables, which grows in a fork.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The limit of each folder. A file belongs to the longest of these paths that it begins with. */
const LIMITS = new Map(
  Object.entries({
    'src/platform/config/': 455,
    'src/platform/errors/': 95,
    'src/platform/logging/': 85,
    'src/platform/validation/': 820,
    'src/platform/http/': 1380,
    'src/platform/metrics/': 345,
    'src/platform/database/': 2850,
    'src/platform/auth/': 895,
    'src/platform/idempotency/': 845,
    'src/platform/deprecation/': 70,
    'src/platform/health/': 110,
    'src/platform/openapi/': 710,
    'src/platform/resource/': 1025,
    'src/platform/application/': 300,
    'src/platform/': 155,
    'src/cli/': 570,
    'test/platform/': 18470,
    'tools/generator/': 5650,
    'tools/openapi/': 1210,
    'tools/bench/': 1100,
    'docs/': 2030,
    'deploy/': 1265,
    'examples/': 1260,
  }),
);
const NOT_COUNTED = /\.(png|snap|d\.ts)$|^tools\/bench\/RESULTS\.md$|^docs\/configuration\.md$/;

const findFolder = (file) =>
  [...LIMITS.keys()]
    .filter((path) => file.startsWith(path))
    .toSorted((a, b) => b.length - a.length)[0];
const lines = new Map([...LIMITS.keys()].map((path) => [path, 0]));
const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' })
  .split('\0')
  .filter(Boolean);
for (const file of files.filter((each) => !NOT_COUNTED.test(each))) {
  const path = /^(CONTRIBUTING|SECURITY)\.md$/.test(file) ? 'docs/' : findFolder(file);
  if (path !== undefined)
    lines.set(path, lines.get(path) + readFileSync(file, 'utf8').split('\n').length - 1);
}

for (const [path, limit] of LIMITS)
  console.log(`${lines.get(path)} of ${limit}`.padStart(16), path);
console.log(String([...lines.values()].reduce((sum, each) => sum + each)).padStart(16), 'lines');
const above = [...LIMITS].filter(([path, limit]) => lines.get(path) > limit).map(([path]) => path);
if (above.length > 0)
  throw new Error(`More lines than the limit of scripts/lines.js: ${above.join(', ')}`);
