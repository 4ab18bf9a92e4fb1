import { compareList } from '../implemented.js';

describe('the list of what is implemented of public contracts', () => {
  const ACTUAL = ['a.com 1234', 'a.com GET /a', 'b.com PUT /b without ?c'];
  const LINES = `${ACTUAL.join('\n')}\n`;

  it.each<[name: string, list: string, problems: string[], merged: string]>([
    ['is as it was', LINES, [], LINES],
    [
      'lacks an operation',
      'a.com 1234\na.com GET /a\n',
      ['b.com PUT /b without ?c: is new; npm run corpus -- --update adds it'],
      LINES,
    ],
    [
      'has one that is lost',
      `${LINES}c.com GET /c\n`,
      ['c.com GET /c: add "-- lost:" and the reason to its line'],
      `${LINES}c.com GET /c\n`,
    ],
    [
      'has one that is lost, with an empty reason',
      `${LINES}c.com GET /c -- lost:  \n`,
      ['c.com GET /c: add "-- lost:" and the reason to its line'],
      `${LINES}c.com GET /c\n`,
    ],
    [
      'has one that is lost, with its reason',
      `${LINES}c.com GET /c -- lost: it was wrong\n`,
      [],
      `${LINES}c.com GET /c -- lost: it was wrong\n`,
    ],
    [
      'has one that was lost, and is implemented again',
      LINES.replace('GET /a', 'GET /a -- lost: it was wrong'),
      ['a.com GET /a: is new; npm run corpus -- --update adds it'],
      LINES,
    ],
    [
      'has a document that changed',
      LINES.replace('1234', '1233'),
      [
        'a.com 1233: add "-- lost:" and the reason to its line',
        'a.com 1234: is new; npm run corpus -- --update adds it',
      ],
      `a.com 1233\n${LINES}`,
    ],
  ])('%s', (_name, list, problems, merged) =>
    expect(compareList(list, ACTUAL)).toEqual({ problems, merged }),
  );
});
