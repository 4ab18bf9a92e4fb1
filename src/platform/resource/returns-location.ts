import {
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import type { Response } from 'express';
import { type Observable, tap } from 'rxjs';
import { Versioned } from './versioned.js';

/** What an operation creates, or the {@link Versioned} of it. */
type Created = { readonly id: unknown } | Versioned<{ readonly id: unknown }>;

class LocationInterceptor implements NestInterceptor<Created> {
  constructor(private readonly path: string) {}

  intercept(context: ExecutionContext, next: CallHandler<Created>): Observable<Created> {
    const response = context.switchToHttp().getResponse<Response>();
    return next.handle().pipe(
      tap((created) => {
        const { id } = created instanceof Versioned ? created.body : created;
        response.location(`${this.path}/${String(id)}`);
      }),
    );
  }
}

/**
 * Sends the URL of the resource that an operation creates, in the `Location` header.
 *
 * @param path the URL of the collection, relative to that of the request (RFC 9110, section 10.2.2), such as
 *   `pets` for `POST /v1/pets`: it is valid behind a proxy that adds a path prefix
 */
export function ReturnsLocation(path: string): MethodDecorator {
  return UseInterceptors(new LocationInterceptor(path));
}
