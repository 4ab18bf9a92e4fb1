/** Writes the commit that the service is built from to dist/commit: SOURCE_COMMIT, or the commit that Git has checked out. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

// Without Git, or outside of a repository, the commit is unknown, and the file is empty.
const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' });
writeFileSync('dist/commit', process.env.SOURCE_COMMIT || (stdout ?? '').trim());
