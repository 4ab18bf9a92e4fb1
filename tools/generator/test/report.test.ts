import { Notes } from '../model.js';
import { formatReport } from '../report.js';

describe('the report', () => {
  it('has one line of bounded length for each kind of difference, however many places it has', () => {
    const notes = new Notes();
    notes.add('Paths are below /v1.');
    for (let number = 1; number <= 500; number++) {
      notes.add('no callbacks are sent.', `GET /a${number}`);
      notes.add('its servers are ignored.', 'a'.repeat(number));
    }
    const leftOut = [{ operation: 'HEAD /a', reason: 'b'.repeat(1_000) }];
    const lines = formatReport({ operations: [], leftOut, notes }).split('\n');
    expect(lines).toHaveLength(6);
    expect(lines).toContain('- GET /a1, GET /a2, GET /a3 and 497 more: no callbacks are sent.');
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(310);
  });
});
