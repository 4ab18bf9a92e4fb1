import { type NestInterceptor, UseInterceptors } from '@nestjs/common';
import type { Response } from 'express';
import { tap } from 'rxjs';
import { Versioned } from './versioned.js';

/**
 * Sends the URL of the resource that an operation creates, in the `Location` header.
 *
 * @param path the URL of the collection, relative to that of the request (RFC 9110, section 10.2.2), such as
 *   `pets` for `POST /v1/pets`: it is valid behind a proxy that adds a path prefix
 * @param key the property of the resource that its URL ends with
 */
export function ReturnsLocation(path: string, key = 'id'): MethodDecorator {
  const interceptor: NestInterceptor<object> = {
    intercept: (context, next) =>
      next.handle().pipe(
        tap((created) => {
          const resource = created instanceof Versioned ? created.body : created;
          const value = (resource as Record<string, unknown>)[key];
          context
            .switchToHttp()
            .getResponse<Response>()
            .location(`${path}/${encodeURIComponent(String(value))}`);
        }),
      ),
  };
  return UseInterceptors(interceptor);
}
