import { Controller, Get, Param } from '@nestjs/common';
import { ApiNotImplementedResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ApiError } from '../../src/platform/errors/api-error.js';
import { ErrorBody } from '../../src/platform/http/responses/error-body.dto.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { Deprecated, Stability } from '../../src/platform/lifecycle/lifecycle.decorators.js';

/** Stub operations for tests, because those of the service are replaced as teams implement them. */
@ApiTags('stubs')
@Controller('stubs')
class StubsController {
  @Get('deprecated/:id')
  @Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })
  @ApiOperation({ operationId: 'getDeprecated', summary: 'Get a deprecated stub' })
  @ApiNotImplementedResponse({ type: ErrorBody, description: 'Not implemented.' })
  getDeprecated(@Param('id') _id: string): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }

  @Get('experimental')
  @Stability('experimental')
  @ApiOperation({ operationId: 'listExperimental', summary: 'List experimental stubs' })
  @ApiNotImplementedResponse({ type: ErrorBody, description: 'Not implemented.' })
  listExperimental(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}

/**
 * A feature for `startApp`: it adds the deprecated `/v1/stubs/deprecated/{id}` and the experimental
 * `/v1/stubs/experimental`. Both return 501.
 */
@Feature({
  tag: { name: 'stubs', description: 'Operations that are not implemented.' },
  controllers: [StubsController],
})
export class StubsModule {}
