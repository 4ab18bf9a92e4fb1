import { Controller, Get } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { ApiError, Operation, Stability } from '../../platform/index.js';

@ApiTags('store')
@Controller('store')
export class StoreController {
  @Get('orders')
  @Stability('experimental')
  @Operation({
    operationId: 'listOrders',
    summary: 'List store orders',
    description: 'Not implemented yet: returns 501.',
    notImplemented: true,
  })
  listOrders(): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}
