/** The bounds of a ratio. */
export interface Bounds {
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** What the runs say about a ratio. */
export interface Evaluation {
  /** The median of the starts of all runs. */
  readonly median: number;
  /** The lowest and the highest start of each run. */
  readonly intervals: readonly (readonly [number, number])[];
  readonly result: 'met' | 'missed' | 'not decided';
  /** Whether no interval is wider than 15 % of its median. */
  readonly isPrecise: boolean;
  /** Whether the ratio is precise, and the runs agree. */
  readonly isPublished: boolean;
}

const WIDEST = 0.15;

export function getMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Evaluates the ratios of the starts of each run. Whatever the distribution, the median is between the lowest and the highest
 * of n starts unless all of them are on one side of it: with a probability of 1 - 2^(1-n), which is 99 % for eight starts.
 * Less than six have no interval.
 */
export function evaluate(runs: readonly number[][], bounds: Bounds): Evaluation {
  const { atLeast = -Infinity, atMost = Infinity } = bounds;
  const intervals = runs.map((run): [number, number] =>
    run.length < 6 ? [-Infinity, Infinity] : [Math.min(...run), Math.max(...run)],
  );
  const widths = intervals.map(([low, high]) => high - low);
  const isPrecise = runs.every((run, each) => widths[each]! <= WIDEST * getMedian(run));
  const agree = intervals.every(([low]) => intervals.every(([, high]) => low <= high));
  const isMet = intervals.every(([low, high]) => low >= atLeast && high <= atMost);
  const isMissed = intervals.every(([low, high]) => high < atLeast || low > atMost);
  const otherwise = isMissed ? 'missed' : 'not decided';
  return {
    median: getMedian(runs.flat()),
    intervals,
    result: isMet ? 'met' : otherwise,
    isPrecise,
    isPublished: isPrecise && agree,
  };
}
