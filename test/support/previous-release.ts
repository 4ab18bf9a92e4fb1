import { spawnSync } from 'node:child_process';
import { ProjectCopy } from './project-copy.js';

/** The last commit of the previous release. */
const COMMIT = '639547c';

const hasCommit = spawnSync('git', ['cat-file', '-e', `${COMMIT}^{commit}`]).status === 0;
if (!hasCommit)
  process.stderr.write(
    `Skipped tests with the previous release: its commit ${COMMIT} is not in this clone.\n`,
  );

/** Describes tests with processes of the previous release, which are skipped in a shallow clone. */
export const describeWithPreviousRelease = hasCommit ? describe : describe.skip;

/**
 * Builds the previous release, which takes about 5 seconds. Remove the copy after the tests.
 *
 * @returns a copy of its project; `services.serve({ main: copy.resolve('dist/main.js') })` starts it
 */
export async function buildPreviousRelease(): Promise<ProjectCopy> {
  const copy = await ProjectCopy.create(COMMIT);
  const { failed, output } = await copy.npm('build');
  if (failed) throw new Error(output);
  return copy;
}
