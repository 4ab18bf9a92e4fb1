import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  Get,
  HttpCode,
  Patch,
  Post,
  Query,
  SerializeOptions,
  UseInterceptors,
} from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { Feature } from '../../src/platform/feature.decorator.js';
import { applyMergePatch, MergePatch } from '../../src/platform/resource/merge-patch.js';
import {
  ArrayProperty,
  BooleanProperty,
  DateProperty,
  DateTimeProperty,
  DecimalProperty,
  EnumProperty,
  IdProperty,
  IntegerProperty,
  MapProperty,
  NumberProperty,
  ObjectProperty,
  StringProperty,
  UriProperty,
  UuidProperty,
} from '../../src/platform/resource/property.decorators.js';
import { validateBody } from '../../src/platform/resource/validation.pipe.js';

class Tag {
  @IntegerProperty({ format: 'int32', optional: true, example: 1, description: 'Number.' })
  id?: number;

  @StringProperty({ maxLength: 10, description: 'Name.', example: 'new' })
  name!: string;

  @EnumProperty({ values: ['red', 'blue'], default: 'red', description: 'Color.' })
  color!: string;

  @ObjectProperty(() => Tag, { optional: true, description: 'The tag that this one is part of.' })
  parent?: Tag;

  @ArrayProperty({
    items: IntegerProperty({ minimum: 0, maximum: 9, example: 1, description: 'Code.' }),
    maxItems: 2,
    optional: true,
    description: 'Codes.',
  })
  codes?: number[];
}

class NewKit {
  @IdProperty({ readOnly: true, description: 'Assigned by the service on creation.' })
  id!: number;

  @ObjectProperty(() => Tag, { optional: true, description: 'Category.' })
  category?: Tag;

  @ArrayProperty({
    items: ObjectProperty(() => Tag),
    maxItems: 3,
    uniqueItems: true,
    optional: true,
    description: 'Tags.',
  })
  tags?: Tag[];

  @ArrayProperty({
    items: UriProperty({ description: 'Address of a photo.' }),
    minItems: 1,
    maxItems: 3,
    uniqueItems: true,
    optional: true,
    description: 'Photos.',
  })
  photoUrls?: string[];

  @ArrayProperty({
    items: ArrayProperty({
      items: NumberProperty({ example: 1.5, description: 'Coordinate.' }),
      minItems: 2,
      maxItems: 2,
      description: 'Point.',
    }),
    maxItems: 3,
    optional: true,
    description: 'Outline.',
  })
  outline?: number[][];

  @MapProperty({
    values: IntegerProperty({ format: 'int32', example: 1, description: 'Number of parts.' }),
    maxProperties: 2,
    optional: true,
    description: 'Parts by color.',
  })
  parts?: Record<string, number>;

  @MapProperty({
    values: EnumProperty({ values: ['small', 'large'], description: 'Size.' }),
    maxProperties: 2,
    optional: true,
    description: 'Sizes by country.',
  })
  sizes?: Record<string, string>;

  @IntegerProperty({ format: 'int32', optional: true, example: 1, description: 'Count.' })
  count?: number;

  @DateProperty({ optional: true, description: 'Day of the release.' })
  releasedOn?: string;

  @DateTimeProperty({ optional: true, description: 'When it was sold.' })
  soldAt?: string;

  @UuidProperty({ optional: true, description: 'Key of the order.' })
  orderKey?: string;

  @DecimalProperty({
    precision: 6,
    scale: 2,
    unsigned: true,
    optional: true,
    example: '9.99',
    description: 'Price.',
  })
  price?: string;

  @DecimalProperty({
    precision: 2,
    scale: 2,
    optional: true,
    example: '0.5',
    description: 'Share.',
  })
  share?: string;

  @StringProperty({
    maxLength: 20,
    pattern: /^\p{Lu}{3}$/u,
    optional: true,
    description: 'Code.',
    example: 'ABC',
  })
  code?: string;

  @EnumProperty({ values: ['available', 'sold'], default: 'available', description: 'Status.' })
  status!: string;

  @ArrayProperty({
    items: StringProperty({ maxLength: 10, example: 'new', description: 'Label.' }),
    maxItems: 3,
    default: ['new'],
    description: 'Labels.',
  })
  labels!: string[];

  @StringProperty({
    maxLength: 20,
    writeOnly: true,
    optional: true,
    description: 'Secret of the owner.',
    example: 'secret',
  })
  secret?: string;
}

class KitPatch extends MergePatch(NewKit, [
  'category',
  'tags',
  'photoUrls',
  'parts',
  'orderKey',
  'status',
]) {}

class KitQuery {
  @EnumProperty({ values: ['available', 'sold'], optional: true, description: 'Status.' })
  status?: string;

  @IntegerProperty({ minimum: 1, maximum: 100, default: 20, example: 20, description: 'Limit.' })
  limit!: number;

  @NumberProperty({ example: 1.5, optional: true, description: 'Minimum weight.' })
  minWeight?: number;

  @BooleanProperty({ optional: true, description: 'Only those in stock.' })
  inStock?: boolean;

  @ArrayProperty({
    items: IdProperty({ description: 'Id of a tag.' }),
    maxItems: 3,
    optional: true,
    description: 'Tags.',
  })
  tag?: number[];
}

@ApiTags('kits')
@Controller('kits')
class KitsController {
  @Get()
  @ApiOperation({ operationId: 'listKits', summary: 'Returns the query' })
  listKits(@Query() query: KitQuery): KitQuery {
    return query;
  }

  @Post()
  @HttpCode(200)
  @ApiOperation({ operationId: 'createKit', summary: 'Returns the body' })
  createKit(@Body() kit: NewKit): object {
    return kit;
  }

  @Patch()
  @ApiOperation({ operationId: 'updateKit', summary: 'Returns the body' })
  updateKit(@Body() patch: KitPatch): object {
    return patch;
  }

  @Patch('merged')
  @ApiOperation({ operationId: 'mergeKit', summary: 'Returns an empty kit with the patch applied' })
  mergeKit(@Body() patch: KitPatch): Promise<NewKit> {
    return validateBody(NewKit, applyMergePatch({ parts: { red: 1, blue: 2 } }, patch));
  }

  @Post('stored')
  @HttpCode(200)
  @UseInterceptors(ClassSerializerInterceptor)
  @SerializeOptions({ type: NewKit })
  @ApiOperation({ operationId: 'storeKit', summary: 'Returns the body as a resource' })
  @ApiOkResponse({ type: NewKit })
  storeKit(@Body() kit: NewKit): object {
    return Object.assign(kit, { id: 1 });
  }
}

/** A feature for `startApp` whose operations return what the validation passes to them. */
@Feature({
  tag: { name: 'kits', description: 'Kits.' },
  entities: [],
  migrations: [],
  controllers: [KitsController],
  providers: [],
})
export class KitsModule {}
