import { applyDecorators, type NestInterceptor } from '@nestjs/common';
import type { Response } from 'express';
import { map } from 'rxjs';
import { toVersionEtag } from '../../http/responses/etag.js';
import { ApiResponseHeaders } from '../../http/responses/response-headers.js';
import type { Versioned } from '../../http/responses/versioned.js';
import { UseInnermostInterceptor } from './innermost-interceptor.js';

/** Sends the body of a {@link Versioned} with its ETag. */
const versionedInterceptor: NestInterceptor<Versioned<unknown>> = {
  intercept(context, next) {
    const response = context.switchToHttp().getResponse<Response>();
    return next.handle().pipe(
      map(({ version, body }) => {
        response.setHeader('ETag', toVersionEtag(version));
        if (['GET', 'HEAD'].includes(response.req.method))
          response.setHeader('Cache-Control', 'private, no-cache');
        return body;
      }),
    );
  },
};

/**
 * Declares that an operation returns a {@link Versioned}. The response has its version as a strong ETag;
 * a GET request also evaluates If-None-Match. The OpenAPI document declares both. Not for PUT, unless
 * the row is exactly what the client sent (RFC 9110, section 9.3.4).
 */
export function ReturnsEtag(): MethodDecorator {
  const ETag = {
    description: 'Identifies this version of the resource.',
    schema: { type: 'string', maxLength: 100, example: toVersionEtag(1) },
  };
  return applyDecorators(
    UseInnermostInterceptor(versionedInterceptor, 2),
    ApiResponseHeaders({ ETag }),
  );
}
