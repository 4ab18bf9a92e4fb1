import { All, Controller, Req, VERSION_NEUTRAL } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiKeyGuard } from '../../auth/api-key.guard.js';
import { requiresApiKey, Public } from '../../auth/public.decorator.js';
import { ApiError } from '../../errors/api-error.js';
import type { HttpAdapter } from './http.adapter.js';

/** Answers what no other route has taken: 404, or 405 where the path is served with another method. */
@ApiExcludeController()
@Controller({ version: VERSION_NEUTRAL })
export class NotFoundController {
  constructor(
    private readonly host: HttpAdapterHost<HttpAdapter>,
    private readonly guard: ApiKeyGuard,
  ) {}

  /** Public, because an unknown path gives nothing away; a path that needs a key asks for it all the same. */
  @Public()
  @All('{*path}')
  async answer(@Req() request: Request): Promise<never> {
    const operations = this.host.httpAdapter
      .findRoutes(request.path)
      .filter(({ handler }) => handler.name !== 'UnmatchedController.answer');
    if (operations.length === 0) {
      throw new ApiError('NOT_FOUND', `Nothing is served at ${request.path}.`);
    }
    if (operations.some(({ handler }) => requiresApiKey(handler)))
      await this.guard.authenticate(request);
    const methods = new Set(operations.map(({ method }) => method));
    if (methods.has('GET')) methods.add('HEAD');
    throw new ApiError(
      'METHOD_NOT_ALLOWED',
      `${request.method} is not served at ${request.path}.`,
      {
        Allow: [...methods].toSorted().join(', '),
      },
    );
  }
}
