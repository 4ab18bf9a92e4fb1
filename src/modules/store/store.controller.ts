import { Controller, Get } from '@nestjs/common';
import { ApiNotImplementedResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
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
    description: 'Not implemented yet: returns 501.',
  })
  @ApiNotImplementedResponse({ description: 'Not implemented yet.' })
  listOrders(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}
