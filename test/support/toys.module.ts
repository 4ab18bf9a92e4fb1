import { Body, Controller, Delete, Get, Patch, Post, Put, Query } from '@nestjs/common';
import { ApiTags, OmitType } from '@nestjs/swagger';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
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
import {
  addRevisionTrigger,
  dropRevisionTrigger,
} from '../../src/platform/database/lists/revision-trigger.js';
import {
  bigintTransformer,
  dateTimeTransformer,
  IdColumn,
  idColumn,
} from '../../src/platform/database/statements/columns.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import type { CachedJsonResponse } from '../../src/platform/http/responses/cached-json-response.js';
import { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { IdParam } from '../../src/platform/resource/id-param.decorator.js';
import { JsonBody } from '../../src/platform/resource/json-body.decorator.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';
import { Operation } from '../../src/platform/resource/operation.decorator.js';
import { Property } from '../../src/platform/resource/property.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import type { Complete, Resource } from '../../src/platform/resource/resource.js';
import { ReturnsLocation } from '../../src/platform/resource/returns-location.js';
import { CageEntity } from './cages.module.js';

@Entity('toys')
@Unique('uq_toys_cage_id_name', ['cageId', 'name'])
export class ToyEntity {
  @IdColumn('pk_toys', { type: 'uuid' })
  id!: string;

  @ForeignKey('cages', { name: 'fk_toys_cage_id' })
  @Column('bigint', { name: 'cage_id', transformer: bigintTransformer })
  cageId!: number;

  @Column('varchar', { length: 50 })
  name!: string;

  @Column('simple-json', { nullable: true })
  size!: ToySize | null;

  @Column('bigint', { name: 'made_at', nullable: true, transformer: dateTimeTransformer })
  madeAt!: string | null;

  @Column({ type: 'varchar', name: 'seen_by', length: 50, nullable: true, update: false })
  seenBy!: string | null;
}

class CreateToys1790000000002 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'toys',
        columns: [
          idColumn(queryRunner, 'pk_toys', { type: 'uuid' }),
          { name: 'cage_id', type: 'bigint' },
          { name: 'name', type: 'varchar', length: '50' },
          { name: 'size', type: 'text', isNullable: true },
          { name: 'made_at', type: 'bigint', isNullable: true },
          { name: 'seen_by', type: 'varchar', length: '50', isNullable: true },
        ],
        uniques: [{ name: 'uq_toys_cage_id_name', columnNames: ['cage_id', 'name'] }],
        foreignKeys: [
          {
            name: 'fk_toys_cage_id',
            columnNames: ['cage_id'],
            referencedTableName: 'cages',
            referencedColumnNames: ['id'],
          },
        ],
      }),
    );
    await addRevisionTrigger(queryRunner, 'toys');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await dropRevisionTrigger(queryRunner, 'toys');
    await queryRunner.dropTable('toys');
  }
}

const integer = { minimum: 0, maximum: 1000, example: 1 };

export class ToySize {
  @Property({ type: 'integer', ...integer, description: 'Width.' }) width!: number;
  @Property({ type: 'integer', ...integer, optional: true, description: 'Height.' })
  height?: number;
}

export class Toy {
  @Property({
    type: 'string',
    format: 'uuid',
    readOnly: true,
    description: 'Assigned by the service.',
  })
  toyId!: string;
  @Property({ type: 'string', minLength: 1, maxLength: 50, description: 'Name.', example: 'ball' })
  name!: string;
  @Property({ type: () => ToySize, optional: true, description: 'Size.' }) size?: ToySize;
  @Property({
    type: 'string',
    format: 'date-time',
    optional: true,
    description: 'When it was made.',
  })
  madeAt?: string;
  @Property({
    type: 'string',
    readOnly: true,
    optional: true,
    description: 'Who saw it.',
    example: 'ann',
  })
  seenBy?: string;
}

class NewToy extends OmitType(Toy, ['toyId', 'seenBy']) {}
class ToyPatch extends MergePatch(NewToy, ['size', 'madeAt']) {}

const position = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER, optional: true, example: 1 };

class ToyPage {
  @Property({ type: 'integer', ...integer, default: 20, description: 'Maximum number.' })
  limit!: number;
  @Property({
    type: 'string',
    format: 'uuid',
    optional: true,
    description: 'The toy before the page.',
  })
  after?: string;
  @Property({ type: 'integer', ...position, description: 'Number of toys before.' })
  offset?: number;
  @Property({ type: 'integer', ...position, description: 'Number of the page.' }) page?: number;
}

class ToyList {
  items!: Toy[];
  total!: number;
}

const toToy = (row: ToyEntity): Complete<Toy> => ({
  toyId: row.id,
  name: row.name,
  size: row.size ?? undefined,
  madeAt: row.madeAt ?? undefined,
  seenBy: row.seenBy ?? undefined,
});

@ApiTags('toys')
@Controller('cages/:cageId/toys')
export class ToysController {
  readonly toys: Resource<ToyEntity, Toy>;
  private readonly cages: Resource<CageEntity, CageEntity>;

  constructor(
    @InjectRepository(ToyEntity) toys: Repository<ToyEntity>,
    @InjectRepository(CageEntity) cages: Repository<CageEntity>,
    kit: ResourceKit,
  ) {
    this.toys = kit.resource(toys, {
      toBody: toToy,
      dto: NewToy,
      envelope: (items, { total, next }) => ({ items, total, next }),
    });
    this.cages = kit.resource(cages, { toBody: (cage) => cage });
  }

  @Get()
  @Operation({
    operationId: 'listToys',
    response: 'A page of toys.',
    returns: ToyList,
    list: 'pages',
    errors: [400, 404],
  })
  async listToys(
    @IdParam('cageId') cageId: number,
    @Query() page: ToyPage,
  ): Promise<CachedJsonResponse> {
    await this.cages.require({ id: cageId });
    return this.toys.page(page, { cageId });
  }

  @Post()
  @Operation({
    operationId: 'createToy',
    status: 201,
    response: 'The created toy.',
    returns: Toy,
    location: 'toys/1',
    errors: [404, 409],
  })
  @ReturnsLocation('toys', 'toyId')
  async createToy(
    @IdParam('cageId') cageId: number,
    @Body() toy: NewToy,
    @IdempotencyKey() key: IdempotencyKey | undefined,
  ): Promise<Toy> {
    await this.cages.require({ id: cageId });
    return this.toys.create(Object.assign(toy, { cageId, seenBy: 'the service' }), key);
  }

  @Get(':toyId')
  @Operation({ operationId: 'getToy', response: 'The toy.', returns: Toy, errors: [404] })
  getToy(
    @IdParam('cageId') cageId: number,
    @IdParam('toyId', { type: 'uuid' }) id: string,
  ): Promise<Toy> {
    return this.toys.read({ id, cageId });
  }

  @Put(':toyId')
  @Operation({
    operationId: 'replaceToy',
    response: 'The replaced toy.',
    returns: Toy,
    errors: [404, 409],
  })
  replaceToy(
    @IdParam('cageId') cageId: number,
    @IdParam('toyId', { type: 'uuid' }) id: string,
    @Body() toy: NewToy,
  ): Promise<Toy> {
    return this.toys.replace({ id, cageId }, Object.assign(toy, { cageId }));
  }

  @Patch(':toyId')
  @Operation({
    operationId: 'updateToy',
    response: 'The updated toy.',
    returns: Toy,
    errors: [404, 409],
  })
  updateToy(
    @IdParam('cageId') cageId: number,
    @IdParam('toyId', { type: 'uuid' }) id: string,
    @JsonBody({ type: () => ToyPatch }, { mergePatch: true }) patch: ToyPatch,
  ): Promise<Toy> {
    return this.toys.patch({ id, cageId }, patch);
  }

  @Delete(':toyId')
  @Operation({
    operationId: 'deleteToy',
    status: 204,
    response: 'The toy was deleted.',
    errors: [404],
  })
  async deleteToy(
    @IdParam('cageId') cageId: number,
    @IdParam('toyId', { type: 'uuid' }) id: string,
  ): Promise<void> {
    await this.toys.delete({ id, cageId });
  }
}

/**
 * A feature for `startApp`, with {@link CagesModule}: its resource has a UUID as the id, which clients see by another name,
 * belongs to a cage, and has an object, a property that only the service writes, and a list in an envelope.
 */
@Feature({
  tag: { name: 'toys', description: 'Toys.' },
  imports: [TypeOrmModule.forFeature([CageEntity])],
  entities: [ToyEntity],
  migrations: [CreateToys1790000000002],
  controllers: [ToysController],
})
export class ToysModule {}
