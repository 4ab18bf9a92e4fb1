import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ApiError } from '../../platform/errors/api-error.js';
import { Stability } from '../../platform/lifecycle/lifecycle.decorators.js';

@ApiTags('store')
@Controller('store')
export class StoreController {
  @Get('orders')
  @Stability('experimental')
  @ApiOperation({
    operationId: 'listOrders',
    summary: 'List store orders',
    description: 'Published, but its payload is not specified yet: it answers 501.',
  })
  @ApiOkResponse({ description: 'Not specified yet: the operation answers 501.' })
  listOrders(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Store orders are not specified yet.');
  }
}
