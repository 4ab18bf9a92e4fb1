import { evaluate, getInterval, getMedian } from '../statistics.js';

const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

describe('getInterval', () => {
  // The tables of order statistics: of 8 values the 1st and the 8th, of 9 the 2nd and the 8th, of 16 the 4th and the 13th.
  it.each([
    [5, -Infinity, Infinity],
    [6, 1, 6],
    [8, 1, 8],
    [9, 2, 8],
    [16, 4, 13],
  ])('of %d values in any order is from %d to %d', (count, low, high) => {
    const values = Array.from({ length: count }, (_, index) => count - index);
    expect(getInterval([values.at(-1)!, ...values.slice(0, -1)])).toEqual([low, high]);
  });

  it('contains the true ratio in at least 95 % of simulated rows of eight starts of three pairs', () => {
    let seed = 1;
    const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    const normal = (): number =>
      Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    const simulateStart = (): number => {
      const start = 1 + 0.03 * normal();
      return getMedian([1, 2, 3].map(() => start * (1 + 0.05 * Math.SQRT2 * normal())));
    };
    const rows = Array.from({ length: 1000 }, () => getInterval(EIGHT.map(simulateStart)));
    expect(rows.filter(([low, high]) => low <= 1 && high >= 1).length).toBeGreaterThan(950);
  });
});

const around = (center: number, spread = 0.01): number[] =>
  EIGHT.map((value) => center + (spread * (value - 4.5)) / 7);

describe('evaluate', () => {
  it.each([
    ['met', true, [around(1.1), around(1.1)], { atLeast: 1.05 }],
    ['missed', true, [around(1), around(1)], { atLeast: 1.05 }],
    ['not decided', true, [around(1.05), around(1.05)], { atLeast: 1.05 }],
    ['met', true, [around(1), around(1)], { atMost: 1.05 }],
    ['missed', true, [around(1.1), around(1.1)], { atMost: 1.05 }],
    ['not decided', false, [around(1.1), around(1)], { atMost: 1.05 }],
    ['met', false, [around(0.8), around(1)], { atMost: 1.05 }],
    ['not measured on this machine', false, [around(1, 0.16), around(1)], { atMost: 2 }],
    ['not decided', true, [around(1, 0.14)], { atLeast: 1 }],
    ['not measured on this machine', false, [[1, 1, 1, 1, 1]], { atLeast: 0.5 }],
  ] as const)('says %s, published: %s', (result, isPublished, runs, bounds) => {
    expect(evaluate(runs, bounds)).toMatchObject({ result, isPublished });
  });
});
