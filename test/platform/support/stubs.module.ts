import { Controller, Get, Param, Post, Version, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiExcludeEndpoint, ApiTags } from '@nestjs/swagger';
import { Public } from '../../../src/platform/auth/public.decorator.js';
import { RequireScope } from '../../../src/platform/auth/scope.decorator.js';
import { ApiError } from '../../../src/platform/errors/api-error.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { Deprecated, Stability } from '../../../src/platform/deprecation/deprecation.decorators.js';
import { Operation } from '../../../src/platform/resource/operation/operation.decorator.js';

/** Stub operations for tests, because those of the service are replaced as teams implement them. */
@ApiTags('stubs')
@Controller('stubs')
class StubsController {
  @Get('deprecated/:id')
  @Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })
  @Operation({ operationId: 'getDeprecated', notImplemented: true })
  getDeprecated(@Param('id') _id: string): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }

  @Get('experimental')
  @Stability('experimental')
  @Operation({ operationId: 'listExperimental', notImplemented: true })
  listExperimental(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}

/** Operations with the paths and the scope that modules may have, too. */
@ApiTags('stubs')
@Controller()
class OddPathsController {
  @Get('stubs/state')
  @ApiExcludeEndpoint()
  getState(): void {}

  @Get('stubs/public-state')
  @Version(VERSION_NEUTRAL)
  @Public()
  @ApiExcludeEndpoint()
  getPublicState(): void {}

  // Nest removes one of the slashes.
  @Get('stubs/shelves//')
  @Public()
  @Operation({ operationId: 'listShelves', notImplemented: true })
  listShelves(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }

  @Post('stubs/:"order-id"\\:append')
  @RequireScope('read')
  @Operation({ operationId: 'appendOrder', notImplemented: true })
  appendOrder(@Param('order-id') _id: string): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}

/**
 * A feature for `startApp`: it adds the deprecated `/v1/stubs/deprecated/{id}` and the experimental
 * `/v1/stubs/experimental`. Both return 501.
 */
@Feature({
  tag: { name: 'stubs', description: 'Operations that are not implemented.' },
  controllers: [StubsController, OddPathsController],
})
export class StubsModule {}
