import { applyDecorators, type NestInterceptor, UseInterceptors } from '@nestjs/common';
import type { Response } from 'express';
import { tap } from 'rxjs';
import { ApiResponseHeaders } from '../http/responses/response-headers.js';
import { Versioned } from './versioned.js';

const PLACEHOLDER = /\{(\w+)\}/;

/**
 * Adds `Location` to the response of an operation that creates a resource, and to the OpenAPI document. The URL
 * is relative (RFC 9110, section 10.2.2), so that it is valid behind a proxy that adds a path prefix.
 *
 * @param template the URL, such as `pets/{id}`, with the name of a property of the resource in braces
 */
export function ReturnsLocation(template: string): MethodDecorator {
  const interceptor: NestInterceptor<object> = {
    intercept: (context, next) =>
      next.handle().pipe(
        tap((created) => {
          const resource = (created instanceof Versioned ? created.body : created) as object;
          const url = template.replace(PLACEHOLDER, (_placeholder, name: string) =>
            String(resource[name as keyof typeof resource]),
          );
          context.switchToHttp().getResponse<Response>().location(url);
        }),
      ),
  };
  const Location = {
    description: 'The URL of the resource, relative to the URL of this request.',
    schema: {
      type: 'string',
      format: 'uri-reference',
      maxLength: 100,
      example: template.replace(PLACEHOLDER, '1'),
    },
  };
  return applyDecorators(UseInterceptors(interceptor), ApiResponseHeaders({ Location }));
}
