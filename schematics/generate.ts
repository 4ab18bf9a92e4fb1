/** `npm run generate -- resource <name> --fields "…"`: runs the generator, then updates `openapi.json`. */
import { execFileSync } from 'node:child_process';
import { main } from '@angular-devkit/schematics-cli/bin/schematics.js';

const [schematic = '', ...options] = process.argv.slice(2);
// By default, a collection given as a path is debugged: it only does a dry run.
const args = [`./schematics/collection.json:${schematic}`, '--no-debug', ...options];
process.exitCode = await main({ args });

const wroteNothing = options.some((option) => /^--(dry-run|help)\b/.test(option));
if (process.exitCode === 0 && !wroteNothing) {
  execFileSync('npm', ['run', '--silent', 'openapi'], { stdio: 'inherit' });
  process.stdout.write('UPDATE openapi.json\nUPDATE examples/petstore.d.ts\n');
}
