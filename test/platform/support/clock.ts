const { jest } = import.meta;

/** Sets and stops the clock of the system: `Date.now()` returns this time until `jest.restoreAllMocks()`. */
export function setSystemTime(time: number): void {
  jest.spyOn(Date, 'now').mockReturnValue(time);
}

/** Lets time pass until a time, and stops all clocks there, also the monotonic one, until `jest.restoreAllMocks()`. */
export function advanceTime(time: number): void {
  setSystemTime(time);
  jest.spyOn(performance, 'now').mockReturnValue(time - performance.timeOrigin);
}
