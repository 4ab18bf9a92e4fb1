import { Body, Controller, Get, HttpCode, Injectable, Patch, Post } from '@nestjs/common';
import { ApiOperation, ApiTags, OmitType } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import {
  Column,
  Entity,
  ForeignKey,
  type MigrationInterface,
  type QueryRunner,
  Repository,
  Table,
} from 'typeorm';
import type { BatchInserter } from '../../src/platform/database/writes/batch-inserter.js';
import {
  bigintTransformer,
  epochMillisTransformer,
  idColumn,
  IdColumn,
} from '../../src/platform/database/statements/columns.js';
import { toConstraintError } from '../../src/platform/database/statements/constraint-error.js';
import { withDeadline } from '../../src/platform/database/connection/deadline.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import { updateReturning } from '../../src/platform/resource/returning.js';
import { ApiError } from '../../src/platform/errors/api-error.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { MergePatch } from '../../src/platform/resource/merge-patch.js';
import { IdParam } from '../../src/platform/resource/id-param.decorator.js';
import {
  ArrayProperty,
  BooleanProperty,
  DateTimeProperty,
  EnumProperty,
  IdProperty,
  IntegerProperty,
  NumberProperty,
  ObjectProperty,
  StringProperty,
} from '../../src/platform/resource/property.decorators.js';

/** The foreign key that makes a toy refer to a category. */
const CATEGORY_KEY = 'fk_toys_category_id';

@Entity('toys')
export class ToyEntity {
  @IdColumn('pk_toys')
  id!: number;

  @Column('varchar', { length: 20 })
  name!: string;

  @Column('varchar', { length: 10 })
  size!: string;

  @Column('integer')
  pieces!: number;

  @Column('double precision', { nullable: true })
  weight!: number | null;

  @Column('boolean')
  fragile!: boolean;

  @Column('bigint', { name: 'made_at', nullable: true, transformer: epochMillisTransformer })
  madeAt!: Date | null;

  @ForeignKey('categories', { name: CATEGORY_KEY })
  @Column('bigint', { name: 'category_id', nullable: true, transformer: bigintTransformer })
  categoryId!: number | null;
}

class CreateToys1790000000000 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'toys',
        columns: [
          idColumn(queryRunner, 'pk_toys'),
          { name: 'name', type: 'varchar', length: '20' },
          { name: 'size', type: 'varchar', length: '10' },
          { name: 'pieces', type: 'integer' },
          { name: 'weight', type: 'double precision', isNullable: true },
          { name: 'fragile', type: 'boolean' },
          { name: 'made_at', type: 'bigint', isNullable: true },
          { name: 'category_id', type: 'bigint', isNullable: true },
        ],
        foreignKeys: [
          {
            name: CATEGORY_KEY,
            columnNames: ['category_id'],
            referencedTableName: 'categories',
            referencedColumnNames: ['id'],
          },
        ],
      }),
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropTable('toys');
  }
}

class Toy {
  @IdProperty({ description: 'Assigned by the service on creation.' })
  id!: number;

  @StringProperty({
    minLength: 2,
    maxLength: 20,
    notBlank: true,
    description: 'Toy name.',
    example: 'ball',
  })
  name!: string;

  @EnumProperty({ values: ['small', 'large'], description: 'Toy size.' })
  size!: string;

  @IntegerProperty({ minimum: 1, maximum: 10, example: 1, description: 'Number of pieces.' })
  pieces!: number;

  @NumberProperty({ example: 1.5, optional: true, description: 'Weight in kilograms.' })
  weight?: number;

  @BooleanProperty({ description: 'Whether the toy can break.' })
  fragile!: boolean;

  @DateTimeProperty({ optional: true, description: 'When the toy was made.' })
  madeAt?: string;

  @IdProperty({ optional: true, description: 'Category of the toy, by id.' })
  categoryId?: number;
}

class NewToy extends OmitType(Toy, ['id']) {}
class ToyPatch extends MergePatch(NewToy, ['weight', 'madeAt', 'categoryId']) {}

function toToy({ weight, madeAt, categoryId, ...toy }: ToyEntity): Toy {
  return {
    ...toy,
    weight: weight ?? undefined,
    madeAt: madeAt?.toISOString(),
    categoryId: categoryId ?? undefined,
  };
}

@Injectable()
class ToysService {
  private readonly inserter: BatchInserter<ToyEntity, Toy>;

  constructor(
    @InjectRepository(ToyEntity) private readonly toys: Repository<ToyEntity>,
    kit: ResourceKit,
  ) {
    this.inserter = kit.batchInserter(toys, toToy);
  }

  async create({ madeAt, ...toy }: NewToy): Promise<Toy> {
    const row = { ...toy, madeAt: madeAt === undefined ? null : new Date(madeAt) };
    try {
      return await this.inserter.insert(row);
    } catch (error) {
      throw await toConstraintError(error, this.toys, row);
    }
  }

  async read(id: number): Promise<Toy> {
    const toy = await withDeadline(this.toys.findOneBy({ id }));
    if (toy === null) throw notFound(id);
    return toToy(toy);
  }

  async update(id: number, { madeAt, ...patch }: ToyPatch): Promise<Toy> {
    const changes = { ...patch, madeAt: typeof madeAt === 'string' ? new Date(madeAt) : madeAt };
    const toy = await updateReturning(this.toys, { id }, changes);
    if (toy === undefined) throw notFound(id);
    return toToy(toy);
  }
}

const notFound = (id: number): ApiError => new ApiError('NOT_FOUND', `Toy ${id} not found.`);

class Label {
  @StringProperty({ maxLength: 10, description: 'Text.', example: 'new' })
  text!: string;
}

class Box {
  @ObjectProperty(() => Label, { description: 'Label on the lid.' })
  label!: Label;

  @ArrayProperty({
    items: ObjectProperty(() => Label),
    maxItems: 10,
    optional: true,
    description: 'Labels on the sides.',
  })
  more?: Label[];
}

@ApiTags('toys')
@Controller('toys')
class ToysController {
  constructor(private readonly toys: ToysService) {}

  @Post()
  @ApiOperation({ operationId: 'createToy', summary: 'Create a toy' })
  createToy(@Body() toy: NewToy): Promise<Toy> {
    return this.toys.create(toy);
  }

  @Get(':toyId')
  @ApiOperation({ operationId: 'getToy', summary: 'Get a toy' })
  getToy(@IdParam('toyId') id: number): Promise<Toy> {
    return this.toys.read(id);
  }

  @Patch(':toyId')
  @ApiOperation({ operationId: 'updateToy', summary: 'Update a toy' })
  updateToy(@IdParam('toyId') id: number, @Body() patch: ToyPatch): Promise<Toy> {
    return this.toys.update(id, patch);
  }

  @Post('boxes')
  @HttpCode(200)
  @ApiOperation({ operationId: 'packToys', summary: 'Pack toys into a box' })
  packToys(@Body() box: Box): Box {
    return box;
  }
}

/** A feature for `startApp` that uses every part of the platform that the service itself does not. */
@Feature({
  tag: { name: 'toys', description: 'Toys.' },
  entities: [ToyEntity],
  migrations: [CreateToys1790000000000],
  controllers: [ToysController],
  providers: [ToysService],
})
export class ToysModule {}
