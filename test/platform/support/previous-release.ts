import { ProjectCopy } from './project-copy.js';
import { commandSucceeds, requires } from './requirements.js';

/** The last commit of the previous release. */
const COMMIT = '639547c';

/** Describes tests with processes of the previous release, which are skipped in a shallow clone. */
export const { describe: describeWithPreviousRelease } = requires(
  `the commit ${COMMIT}, of the previous release`,
  commandSucceeds('git', ['cat-file', '-e', `${COMMIT}^{commit}`]),
);

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
