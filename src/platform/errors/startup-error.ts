/** A problem that prevents startup and that the operator can fix. It is logged without a stack. */
export class StartupError extends Error {
  override readonly name = 'StartupError';
}

/** Converts an error of `listen` to one sentence for the operator, with the variable that sets the port. */
export function toListenError(error: unknown, address: string, variable: string): StartupError {
  const { message } = error as Error;
  return new StartupError(`Failed to listen on ${address} (HOST, ${variable}): ${message}`);
}
