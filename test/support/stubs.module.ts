import { Controller, Get, Module } from '@nestjs/common';
import { ApiOkResponse, ApiOperation } from '@nestjs/swagger';
import { ApiError } from '../../src/platform/errors/api-error.js';
import { Deprecated, Stability } from '../../src/platform/lifecycle/lifecycle.decorators.js';

/** Operations as they are published before they are specified. Those of the service do not stay so. */
@Controller('stubs')
class StubsController {
  @Get('ending/:id')
  @Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })
  @ApiOperation({ operationId: 'getEnding' })
  @ApiOkResponse({ description: 'Not specified yet.' })
  getEnding(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'This is not specified yet.');
  }

  @Get('new')
  @Stability('experimental')
  @ApiOperation({ operationId: 'listNew' })
  @ApiOkResponse({ description: 'Not specified yet.' })
  listNew(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'This is not specified yet.');
  }
}

/** For `startAppWith`: `/v1/stubs/ending/{id}` is deprecated, `/v1/stubs/new` experimental; both answer 501. */
@Module({ controllers: [StubsController] })
export class StubsModule {}
