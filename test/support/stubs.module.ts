import { Controller, Get, Module } from '@nestjs/common';
import { ApiOkResponse, ApiOperation } from '@nestjs/swagger';
import { ApiError } from '../../src/platform/errors/api-error.js';
import { Deprecated, Stability } from '../../src/platform/lifecycle/lifecycle.decorators.js';

/** Stub operations for tests, because those of the service are replaced as teams implement them. */
@Controller('stubs')
class StubsController {
  @Get('deprecated/:id')
  @Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })
  @ApiOperation({ operationId: 'getDeprecated' })
  @ApiOkResponse({ description: 'Not implemented.' })
  getDeprecated(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }

  @Get('experimental')
  @Stability('experimental')
  @ApiOperation({ operationId: 'listExperimental' })
  @ApiOkResponse({ description: 'Not implemented.' })
  listExperimental(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}

/**
 * For `startAppWithModule`: adds the deprecated `/v1/stubs/deprecated/{id}` and the experimental
 * `/v1/stubs/experimental`. Both return 501.
 */
@Module({ controllers: [StubsController] })
export class StubsModule {}
