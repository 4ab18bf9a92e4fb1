/**
 * Writes the commit that the service is built from to dist/commit: SOURCE_COMMIT, or the commit that Git has checked out.
 * It runs first in the build, so that a checkout that this user may not write to fails with one message.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';

// Without Git, or outside of a repository, the commit is unknown, and the file is empty.
const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' });
try {
  mkdirSync('dist', { recursive: true });
  writeFileSync('dist/commit', process.env.SOURCE_COMMIT || (stdout ?? '').trim());
} catch ({ code, path }) {
  process.stderr.write(
    `Failed to write ${path} (${code}): build in a checkout that this user may write to.\n`,
  );
  process.exitCode = 1;
}
