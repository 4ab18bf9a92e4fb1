/** A problem that prevents the start and that the operator can fix: it is reported without a stack. */
export class StartupError extends Error {
  override readonly name = 'StartupError';
}
