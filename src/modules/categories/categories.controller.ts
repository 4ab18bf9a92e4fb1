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
import { ApiError, ErrorBody } from '../../platform/errors/api-error.js';
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
      'All categories, in id order. The answer carries an ETag: send it in If-None-Match, and an unchanged list is 304 without a body.',
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
        description: 'Names this state of the list.',
      },
    },
  })
  @ApiNotModifiedResponse({ description: 'The list is the one that If-None-Match names.' })
  async listCategories(@Req() request: Request, @Res() response: Response): Promise<void> {
    const list = await this.categories.list();
    await list.send(request, response);
  }

  @Post()
  @ApiOperation({
    operationId: 'createCategory',
    summary: 'Create a category',
    description: 'Stores a category; it is on disk when it is answered. Names need not be unique.',
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
