import type { OpenAPIObject } from '@nestjs/swagger';

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;

/** Whether an operation is published only, and so answers 501: the document says nothing of its body. */
export function isNotImplemented({ responses }: Operation): boolean {
  const ok = responses['200'];
  return ok !== undefined && !('$ref' in ok) && ok.content === undefined;
}
