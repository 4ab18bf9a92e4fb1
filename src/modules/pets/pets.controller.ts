import { Controller, Get, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { ApiError, Deprecated, Operation } from '../../platform/index.js';

@ApiTags('pets')
@Controller('pets')
export class PetsController {
  @Get(':petId')
  @Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })
  @Operation({
    operationId: 'getPet',
    summary: 'Get a pet',
    description: 'Not implemented yet: returns 501.',
    notImplemented: true,
  })
  getPet(@Param('petId') _petId: string): never {
    throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');
  }
}
