/** The bounds of a ratio. */
export interface Bounds {
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** A ratio in all runs, compared with its bounds. */
export interface Evaluation {
  /** The median ratio of all starts. */
  readonly median: number;
  /** The lowest and the highest ratio of all starts. */
  readonly interval: readonly [number, number];
  /** Whether the intervals of all runs overlap. */
  readonly isRepeated: boolean;
  readonly result: 'met' | 'missed' | 'open';
}

/** Returns the median of at least one value. */
export function getMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Compares a ratio, of which there is one for each start of each run, with its bounds. For any distribution, the median is in the
 * interval of n starts unless all are on one side of it: with a probability of 1 - 2^(1-n), 99 % for eight. Fewer than six have
 * no interval.
 */
export function evaluate(runs: readonly number[][], bounds: Bounds): Evaluation {
  const { atLeast = -Infinity, atMost = Infinity } = bounds;
  const intervals = runs.map((run): [number, number] =>
    run.length < 6 ? [-Infinity, Infinity] : [Math.min(...run), Math.max(...run)],
  );
  const lowest = intervals.map(([low]) => low);
  const highest = intervals.map(([, high]) => high);
  const isMet = Math.min(...lowest) >= atLeast && Math.max(...highest) <= atMost;
  const isMissed = Math.max(...highest) < atLeast || Math.min(...lowest) > atMost;
  const otherwise = isMissed ? 'missed' : 'open';
  return {
    median: getMedian(runs.flat()),
    interval: [Math.min(...lowest), Math.max(...highest)],
    isRepeated: Math.max(...lowest) <= Math.min(...highest),
    result: isMet ? 'met' : otherwise,
  };
}
