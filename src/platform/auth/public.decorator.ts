import { SetMetadata } from '@nestjs/common';

const PUBLIC = 'petstore:public';

/** Declares that a route needs no API key. No operation of the published interface is public. */
export const Public = (): MethodDecorator => SetMetadata(PUBLIC, true);

/** Whether a handler is declared public. */
export function isPublic(handler: object): boolean {
  return Reflect.hasMetadata(PUBLIC, handler);
}
