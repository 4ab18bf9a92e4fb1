import { evaluate } from '../statistics.js';

const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

const around = (center: number, spread = 0.01): number[] =>
  EIGHT.map((value) => center + (spread * (value - 4.5)) / 7);

describe('evaluate', () => {
  it.each([
    ['met', true, [around(1.1), around(1.1)], { atLeast: 1.05 }],
    ['missed', true, [around(1), around(1)], { atLeast: 1.05 }],
    ['open', true, [around(1.05), around(1.05)], { atLeast: 1.05 }],
    ['met', true, [around(1), around(1)], { atMost: 1.05 }],
    ['missed', true, [around(1.1), around(1.1)], { atMost: 1.05 }],
    ['open', false, [around(1.1), around(1)], { atMost: 1.05 }],
    ['met', false, [around(0.8), around(1)], { atMost: 1.05 }],
    ['met', true, [around(1, 0.5), around(1.1)], { atMost: 2 }],
    ['open', true, [around(1, 0.14)], { atLeast: 1 }],
    ['open', true, [around(1).slice(3)], { atLeast: 0.5 }],
  ] as const)('returns %s, repeated: %s', (result, isRepeated, runs, bounds) => {
    expect(evaluate(runs, bounds)).toMatchObject({ result, isRepeated });
  });

  it('returns the median and the interval of all runs', () => {
    const [low, high] = evaluate([around(1, 0.2), around(1.1, 0.2)], {}).interval;
    expect(low).toBeCloseTo(0.9);
    expect(high).toBeCloseTo(1.2);
    expect(evaluate([around(1), around(2)], {}).median).toBeCloseTo(1.5);
  });
});
