/** Requests to the modules of the contracts beside this file, which run in a copy of the project. */
import { startApp } from '../../../../test/platform/index.js';

const app = await startApp();
afterAll(() => app.stop());

const HERO = { name: 'a', power: 'strong', note: null };
const TICKET = { subject: 'a', price: 0.29, priority: 'closed' };

describe('generated operations', () => {
  // Each row is sent after those above it.
  it.each<[string, string, number, object, object?]>([
    ['POST', '/heroes/', 200, { power: 'none', second: 'fast', third: 'strong' }, { name: 'a' }],
    [
      'GET',
      '/heroes/1',
      200,
      { fourth: 'none', fifth: 'fast', sixth: null, rank: 3, state: 'new' },
    ],
    ['GET', '/heroes/?power=none&rank=3', 200, [{ id: 1 }]],
    ['POST', '/heroes/?notify=false', 501, {}, { name: 'a' }],
    ['PATCH', '/heroes/1', 400, {}, { name: null }],
    ['PUT', '/heroes/1', 400, {}, { power: null }],
    ['PUT', '/heroes/1', 200, { ...HERO, level: 3 }, HERO],
    ['POST', '/tickets/', 201, { id: 1, price: 0.29 }, TICKET],
    ['PUT', '/tickets/1/', 400, {}, { id: 1, ...TICKET }],
    ['PUT', '/tickets/1/', 200, { priority: 'open' }, { subject: 'b', price: 1.1 }],
    ['GET', '/tickets/?limit=1', 200, { count: 1 }],
    ['GET', '/tickets/1', 404, {}],
    ['POST', '/managers/', 201, { id: 1 }, { name: 'a' }],
    ['POST', '/managers/', 201, { id: 2 }, { name: 'b' }],
    ['POST', '/managers/1/teams/', 201, { manager_id: 1 }, { name: 'a' }],
    ['GET', '/managers/2/teams/', 200, []],
    ['GET', '/managers/2/teams/?manager_id=1', 501, {}],
    ['POST', '/managers/2/teams/1/mates/', 404, {}, { code: '12345abc' }],
    ['POST', '/managers/1/teams/1/mates/', 201, { id: 1 }, { code: '12345abc' }],
    ['GET', '/accounts', 200, { number: 0, content: [] }],
    ['DELETE', '/accounts/1', 501, {}],
  ])('%s %s is %i', async (...row) => {
    // Jest would pass a callback as a parameter that a row lacks.
    const [method, path, status, expected, sent] = row;
    const headers = { authorization: `Bearer ${app.key}`, 'content-type': 'application/json' };
    const options = { method, headers, ...(sent && { body: JSON.stringify(sent) }) };
    const response = await fetch(`${app.url}/v1${path}`, options);
    const text = await response.text();
    expect([response.status, text]).toEqual([status, text]);
    expect(JSON.parse(text)).toMatchObject(expected);
  });
});
