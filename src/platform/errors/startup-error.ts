/** A problem that prevents the start and that the operator can fix: it is reported without a stack. */
export class StartupError extends Error {
  override readonly name = 'StartupError';
}

/** What an error of `listen` means, by its code. */
const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is already in use',
  EACCES: 'the user of the process may not use this port',
  EADDRNOTAVAIL: 'this machine does not have the address',
};

/** Converts an error of `listen` to one sentence for the operator, with the variable that sets the port. */
export function toListenError(error: unknown, address: string, variable: string): StartupError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const reason = REASONS[code] ?? message;
  return new StartupError(`Failed to listen on ${address} (HOST, ${variable}): ${reason}.`, {
    cause: error,
  });
}
