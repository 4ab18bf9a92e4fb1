/** Thrown by what plans an operation that can only be a stub. The message is the reason in the report. */
export class Stub extends Error {}

/** Returns what a function makes, or the stub that it throws. */
export function orStub<Made>(make: () => Made): Made | Stub {
  try {
    return make();
  } catch (error) {
    if (error instanceof Stub) return error;
    throw error;
  }
}
