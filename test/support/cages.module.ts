import { createHash } from 'node:crypto';
import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  Delete,
  Get,
  Param,
  Patch,
  Post,
  Put,
  Query,
  SerializeOptions,
  UseInterceptors,
} from '@nestjs/common';
import { ApiTags, OmitType } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import {
  Column,
  Entity,
  ForeignKey,
  type MigrationInterface,
  type QueryRunner,
  Repository,
  Table,
  Unique,
} from 'typeorm';
import { Public } from '../../src/platform/auth/public.decorator.js';
import {
  bigintTransformer,
  dateTimeTransformer,
  idColumn,
  IdColumn,
  versionColumn,
  VersionColumn,
} from '../../src/platform/database/statements/columns.js';
import {
  addRevisionTrigger,
  dropRevisionTrigger,
} from '../../src/platform/database/lists/revision-trigger.js';
import { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import type { Complete, Resource } from '../../src/platform/resource/resource.js';
import { ReturnsLocation } from '../../src/platform/resource/returns-location.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { BinaryBody } from '../../src/platform/resource/binary-body.decorator.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';
import { IfMatch, type VersionCriteria } from '../../src/platform/resource/if-match.decorator.js';
import { Operation } from '../../src/platform/resource/operation.decorator.js';
import { PageParams } from '../../src/platform/resource/page-params.js';
import type { CachedJsonResponse } from '../../src/platform/http/responses/cached-json-response.js';
import { ReturnsEtag, type Versioned } from '../../src/platform/resource/versioned.js';
import { JsonBody } from '../../src/platform/resource/json-body.decorator.js';
import { IdParam } from '../../src/platform/resource/id-param.decorator.js';
import { Property } from '../../src/platform/resource/property.js';
import { Sample, SamplePageParams, SamplePatch, SampleQuery } from './sample.dto.js';

@Entity('cages')
@Unique('uq_cages_label', ['label'])
@Unique('uq_cages_room_position', ['room', 'shelfPosition'])
export class CageEntity {
  @IdColumn('pk_cages')
  id!: number;

  @Column('varchar', { length: 100 })
  label!: string;

  @Column('varchar', { length: 20 })
  room!: string;

  @Column('integer', { name: 'shelf_position' })
  shelfPosition!: number;

  @ForeignKey('categories', { name: 'fk_cages_category_id' })
  @Column('bigint', { name: 'category_id', nullable: true, transformer: bigintTransformer })
  categoryId!: number | null;

  @Column('double precision', { nullable: true })
  weight!: number | null;

  @Column('boolean', { nullable: true })
  locked!: boolean | null;

  @Column('bigint', { name: 'built_at', nullable: true, transformer: dateTimeTransformer })
  builtAt!: string | null;

  @VersionColumn()
  version!: number;
}

class CreateCages1790000000001 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'cages',
        columns: [
          idColumn(queryRunner, 'pk_cages'),
          { name: 'label', type: 'varchar', length: '100' },
          { name: 'room', type: 'varchar', length: '20' },
          { name: 'shelf_position', type: 'integer' },
          { name: 'category_id', type: 'bigint', isNullable: true },
          { name: 'weight', type: 'double precision', isNullable: true },
          { name: 'locked', type: 'boolean', isNullable: true },
          { name: 'built_at', type: 'bigint', isNullable: true },
          versionColumn,
        ],
        uniques: [
          { name: 'uq_cages_label', columnNames: ['label'] },
          { name: 'uq_cages_room_position', columnNames: ['room', 'shelf_position'] },
        ],
        foreignKeys: [
          {
            name: 'fk_cages_category_id',
            columnNames: ['category_id'],
            referencedTableName: 'categories',
            referencedColumnNames: ['id'],
          },
        ],
      }),
    );
    await addRevisionTrigger(queryRunner, 'cages');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await dropRevisionTrigger(queryRunner, 'cages');
    await queryRunner.dropTable('cages');
  }
}

export class Cage {
  @Property({ type: 'integer', minimum: 1, description: 'Assigned by the service on creation.' })
  id!: number;

  @Property({
    type: 'string',
    minLength: 1,
    maxLength: 100,
    description: 'Unique label.',
    example: 'A1',
  })
  label!: string;

  @Property({ type: 'string', minLength: 1, maxLength: 20, description: 'Room.', example: 'attic' })
  room!: string;

  @Property({
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    example: 1,
    description: 'Unique in a room.',
  })
  shelfPosition!: number;

  @Property({
    type: 'integer',
    minimum: 1,
    optional: true,
    description: 'Category of the pets, by id.',
  })
  categoryId?: number;

  @Property({ type: 'number', optional: true, example: 1.5, description: 'Weight in kilograms.' })
  weight?: number;

  @Property({ type: 'boolean', optional: true, description: 'Whether the cage is locked.' })
  locked?: boolean;

  @Property({
    type: 'string',
    format: 'date-time',
    optional: true,
    description: 'When the cage was built.',
  })
  builtAt?: string;
}

class NewCage extends OmitType(Cage, ['id']) {}
class CagePatch extends MergePatch(NewCage, ['categoryId', 'weight', 'locked', 'builtAt']) {}

const toCage = (row: CageEntity): Complete<Cage> => ({
  id: row.id,
  label: row.label,
  room: row.room,
  shelfPosition: row.shelfPosition,
  categoryId: row.categoryId ?? undefined,
  weight: row.weight ?? undefined,
  locked: row.locked ?? undefined,
  builtAt: row.builtAt ?? undefined,
});

/** More than the limit of a JSON body. */
export const IMAGE_LIMIT = 200_000;

class Credentials {
  @Property({ type: 'string', maxLength: 20, description: 'User name.', example: 'ann' })
  user!: string;
}

@ApiTags('cages')
@Controller('cages')
export class CagesController {
  private readonly cages: Resource<CageEntity, Cage>;

  constructor(@InjectRepository(CageEntity) cages: Repository<CageEntity>, kit: ResourceKit) {
    this.cages = kit.resource(cages, { toBody: toCage });
  }

  @Post()
  @Operation({
    operationId: 'createCage',
    status: 201,
    response: 'The created cage.',
    returns: Cage,
    location: 'cages/1',
    errors: { 409: 'Another cage has the same label or place.' },
  })
  @ReturnsEtag()
  @ReturnsLocation('cages')
  createCage(
    @Body() cage: NewCage,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Versioned<Cage>> {
    return this.cages.create(cage, key);
  }

  @Get()
  @Operation({
    operationId: 'listCages',
    response: 'A page of cages.',
    returns: [Cage],
    list: 'pages',
    errors: [400],
  })
  listCages(
    @Query() page: PageParams,
    @Query('room') room?: string,
  ): CachedJsonResponse | Promise<CachedJsonResponse> {
    return this.cages.page(page, { room });
  }

  @Get(':cageId')
  @Operation({
    operationId: 'getCage',
    response: 'The cage.',
    returns: Cage,
    errors: [404],
  })
  @ReturnsEtag()
  getCage(@IdParam('cageId') id: number): Promise<Versioned<Cage>> {
    return this.cages.read({ id });
  }

  @Patch(':cageId')
  @Operation({
    operationId: 'updateCage',
    response: 'The updated cage.',
    returns: Cage,
    errors: [404, 409],
  })
  @ReturnsEtag()
  updateCage(
    @IdParam('cageId') id: number,
    @IfMatch() ifMatch: VersionCriteria,
    @JsonBody({ type: () => CagePatch }, { mergePatch: true }) patch: CagePatch,
  ): Promise<Versioned<Cage>> {
    return this.cages.patch({ id, ...ifMatch }, patch);
  }

  @Put(':cageId')
  @Operation({
    operationId: 'replaceCage',
    response: 'The replaced cage.',
    returns: Cage,
    errors: [404, 409],
  })
  async replaceCage(
    @IdParam('cageId') id: number,
    @IfMatch({ required: true }) ifMatch: VersionCriteria,
    @Body() cage: NewCage,
  ): Promise<Cage> {
    return (await this.cages.replace({ id, ...ifMatch }, cage)).body;
  }

  @Post(':cageId/image')
  @Operation({
    operationId: 'uploadImage',
    status: 201,
    response: 'The hash of the image.',
    returns: { type: 'object', additionalProperties: true },
    errors: [404],
  })
  uploadImage(
    @IdParam('cageId') id: number,
    @BinaryBody({ limit: IMAGE_LIMIT }) image: Buffer,
  ): object {
    return { id, sha256: createHash('sha256').update(image).digest('hex') };
  }

  // The operations on samples return what the validation passes to them.

  @Get('samples')
  @Operation({ operationId: 'listSamples', response: 'The query.', returns: SampleQuery })
  listSamples(@Query() query: SampleQuery): SampleQuery {
    return query;
  }

  @Get('samples/pages/:page')
  @Operation({ operationId: 'getSamplePage', response: 'The path.', returns: SamplePageParams })
  getSamplePage(@Param() params: SamplePageParams): SamplePageParams {
    return params;
  }

  @Post('samples')
  @Operation({ operationId: 'createSample', response: 'The body.', returns: Sample })
  @UseInterceptors(ClassSerializerInterceptor)
  @SerializeOptions({ type: Sample })
  createSample(@Body() sample: Sample): object {
    return sample;
  }

  @Patch('samples')
  @Operation({ operationId: 'updateSample', response: 'The body.', returns: SamplePatch })
  updateSample(@Body() patch: SamplePatch): object {
    return patch;
  }

  @Post('login')
  @Public()
  @Operation({ operationId: 'logIn', response: 'The user.', returns: Credentials })
  logIn(@Body() { user }: Credentials): Credentials {
    return { user };
  }

  @Delete(':cageId')
  @Operation({
    operationId: 'deleteCage',
    status: 204,
    response: 'The cage was deleted.',
    errors: [404, 409],
  })
  async deleteCage(
    @IdParam('cageId') id: number,
    @IfMatch({ required: true }) ifMatch: VersionCriteria,
  ): Promise<void> {
    await this.cages.delete({ id, ...ifMatch });
  }
}

/**
 * A feature for `startApp` that uses every part of the resource kit: its table has unique constraints, a reference,
 * a version and values of every type, its list has pages and a filter, and it has operations with a binary body and
 * with {@link Sample}, and a public one, `POST /v1/cages/login`.
 */
@Feature({
  tag: [
    { name: 'cages', description: 'Cages.' },
    { name: 'categories', description: 'Another description.' },
  ],
  entities: [CageEntity],
  migrations: [CreateCages1790000000001],
  controllers: [CagesController],
})
export class CagesModule {}
