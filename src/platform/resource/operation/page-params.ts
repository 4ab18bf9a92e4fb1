import { MAX_ID } from '../../config/max-id.js';
import { Property } from '../../validation/property.js';

/** The query parameters of a list with pages. The response is a `CachedJsonResponse` with `next`. */
export class PageParams {
  @Property({
    type: 'integer',
    description: 'The maximum number of items.',
    minimum: 1,
    maximum: 100,
    default: 20,
  })
  readonly limit!: number;

  @Property({
    type: 'integer',
    optional: true,
    description:
      'The id after which the page starts. The Link header has the URL of the next page.',
    minimum: 1,
    maximum: MAX_ID,
  })
  readonly after?: number;
}
