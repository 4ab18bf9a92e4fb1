import { Body, Controller, Get, Post, Req, Res } from '@nestjs/common';
import {
  ApiBadRequestResponse,
  ApiCreatedResponse,
  ApiNotModifiedResponse,
  ApiOkResponse,
  ApiOperation,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { ApiError } from '../../platform/errors/api-error.js';
import { ErrorBody } from '../../platform/http/responses/error-body.dto.js';
import { Category, NewCategory } from './category.dto.js';
import { CategoriesService } from './categories.service.js';

@ApiTags('categories')
@Controller('categories')
export class CategoriesController {
  constructor(private readonly categories: CategoriesService) {}

  @Get()
  @ApiOperation({
    operationId: 'listCategories',
    summary: 'List categories',
    description:
      'Returns all categories in id order. The response has an ETag: send it in If-None-Match to get 304 without a body while the list is unchanged.',
  })
  @ApiOkResponse({
    type: [Category],
    description: 'All categories available.',
    headers: {
      ETag: {
        schema: {
          type: 'string',
          pattern: '^"[^"]+"$',
          maxLength: 100,
          example: '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"',
        },
        description: 'Identifies this version of the list.',
      },
    },
  })
  @ApiNotModifiedResponse({ description: 'Not modified: the list still matches If-None-Match.' })
  async listCategories(@Req() request: Request, @Res() response: Response): Promise<void> {
    const list = await this.categories.list();
    await list.send(request, response);
  }

  @Post()
  @ApiOperation({
    operationId: 'createCategory',
    summary: 'Create a category',
    description:
      'Creates a category. A 201 means it has been durably stored. Names need not be unique.',
  })
  @ApiCreatedResponse({ type: Category, description: 'The created category.' })
  @ApiBadRequestResponse({
    type: ErrorBody,
    description: 'Required fields are missing or values are invalid.',
    example: new ApiError('VALIDATION_FAILED', 'name is missing.').body,
  })
  createCategory(@Body() category: NewCategory): Promise<Category> {
    return this.categories.create(category);
  }
}
