/** The bounds of a ratio. */
export interface Bounds {
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** The lowest and the highest value. */
export type Interval = readonly [number, number];

/** What the runs say about a ratio. */
export interface Evaluation {
  /** The median of the starts of all runs. */
  readonly median: number;
  /** The interval of each run. */
  readonly intervals: readonly Interval[];
  readonly result: 'met' | 'missed' | 'not decided' | 'not measured on this machine';
  /** Whether the runs agree, and each of them is precise. */
  readonly isPublished: boolean;
}

const WIDEST = 0.15;

export function getMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Returns the narrowest interval between two values, as many from each end, that contains the median with a probability of
 * 95 %, whatever the distribution: the order statistics of a binomial distribution. Less than six values have none.
 */
export function getInterval(values: readonly number[]): Interval {
  const sorted = values.toSorted((a, b) => a - b);
  let [skipped, outside, probability] = [-1, 0, 2 ** -values.length];
  // Either end lies beyond the median if at most so many values as are skipped are on its side.
  while (2 * (outside + probability) <= 0.05) {
    outside += probability;
    skipped++;
    probability *= (values.length - skipped) / (skipped + 1);
  }
  return skipped < 0 ? [-Infinity, Infinity] : [sorted[skipped]!, sorted.at(-1 - skipped)!];
}

/** Evaluates the ratios of the starts of each run. */
export function evaluate(
  runs: readonly (readonly number[])[],
  { atLeast = -Infinity, atMost = Infinity }: Bounds,
): Evaluation {
  const intervals = runs.map(getInterval);
  const [lows, highs] = [intervals.map(([low]) => low), intervals.map(([, high]) => high)];
  const isPrecise = runs.every(
    (run, each) => highs[each]! - lows[each]! <= WIDEST * getMedian(run),
  );
  const agree = Math.max(...lows) <= Math.min(...highs);
  const isMet = intervals.every(([low, high]) => low >= atLeast && high <= atMost);
  const isMissed = intervals.every(([low, high]) => high < atLeast || low > atMost);
  const verdict = isMet ? 'met' : isMissed ? 'missed' : 'not decided';
  return {
    median: getMedian(runs.flat()),
    intervals,
    result: isPrecise ? verdict : 'not measured on this machine',
    isPublished: isPrecise && agree,
  };
}
