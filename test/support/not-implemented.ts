import type { OpenAPIObject } from '@nestjs/swagger';

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;

/** Reports whether an operation is a stub, which returns 501 and documents no response body. */
export function isNotImplemented({ responses }: Operation): boolean {
  const ok = responses['200'];
  return ok !== undefined && !('$ref' in ok) && ok.content === undefined;
}
