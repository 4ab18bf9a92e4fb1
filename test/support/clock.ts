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

/**
 * Replaces `Date` by one that is ahead of the clock of the system.
 *
 * @param getShift returns by how many milliseconds, whenever the time is read
 */
export function shiftClock(getShift: () => number): void {
  globalThis.Date = new Proxy(Date, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length > 0 ? args : [target.now() + getShift()], newTarget),
    get: (target, name) =>
      name === 'now' ? () => target.now() + getShift() : Reflect.get(target, name),
  });
}
