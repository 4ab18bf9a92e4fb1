const { jest } = import.meta;

/** Stops the clock: `Date.now()` returns this time until `jest.restoreAllMocks()`. */
export function setSystemTime(time: number): void {
  jest.spyOn(Date, 'now').mockReturnValue(time);
}
