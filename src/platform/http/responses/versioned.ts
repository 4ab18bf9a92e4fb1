/** The body of a response, and the version of the row that it represents. */
export class Versioned<Body> {
  constructor(
    readonly version: number,
    readonly body: Body,
  ) {}
}
