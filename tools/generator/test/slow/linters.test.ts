/** Generates resources with every type of field, and checks them as readers of the OpenAPI document do. */
import { readFile } from 'node:fs/promises';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

const FIELDS = `label:string(1..40) notes:text? size:integer(1..9)? rate:number(0..1)? price:decimal(12,2)
  fragile:boolean=false status:enum(new,sent,lost):filter day:date sentAt:date-time? token:uuid?
  address:{street:string(1..50) city:string(1..50)?}? tags:string(1..20)[1..5] colors:enum(red,blue)[]?
  stock:map(integer)? createdAt:date-time=now:read-only secret:string(8..64)?:write-only`;
const OTHER_FIELDS = `name:string(1..40):unique code:string(3..3):filter count:integer weight:number site:uri?
  mail:email? categoryId:ref(categories)?:filter categories:ref(categories)[] extra:json?
  place:{geo:{lat:number(-90..90) lon:number(-180..180)}?}? names:map(string(1..20))? tags:text[]
  lines:{sku:string(1..20) quantity:integer(1..99)}[1..20]?`;

let guide: Guide;
beforeAll(async () => {
  guide = await Guide.create();
  const options = ['--pages', '--if-match', '--fields'];
  await guide.npm('generate', '--', 'resource', 'parcels', '--uuid', ...options, FIELDS);
  await guide.npm('generate', '--', 'resource', 'boxes', ...options, OTHER_FIELDS);
});
afterAll(() => guide.copy.remove());

describe('resources with every type of field', () => {
  it("violate none of Redocly's and OWASP's rules, with the exceptions of the service", async () => {
    expect(await guide.npm('lint:openapi')).toContain('No results');
  });

  it('have no empty description', async () => {
    const text = await readFile(guide.copy.resolve('openapi.json'), 'utf8');
    expect(text).toContain('/boxes/{boxId}');
    expect(text.match(/^.*"description": "",?\n.*/gm) ?? []).toEqual([]);
  });
});
