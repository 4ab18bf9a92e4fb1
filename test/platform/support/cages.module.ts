import { Body, Controller, Delete, Get, Patch, Post, Put, Query } from '@nestjs/common';
import { ApiTags, OmitType } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import { Column, Entity, type EntityManager, ForeignKey, Repository, Unique } from 'typeorm';
import {
  ApiError,
  bigintTransformer,
  type CachedJsonResponse,
  type Complete,
  dateTimeTransformer,
  Feature,
  IdColumn,
  IdempotencyKey,
  IdParam,
  IfMatch,
  insertReturning,
  JsonBody,
  MergePatch,
  Operation,
  PageParams,
  Property,
  Public,
  type Resource,
  ResourceKit,
  ReturnsEtag,
  transactionOnce,
  updateReturning,
  type VersionCriteria,
  VersionColumn,
  type Versioned,
} from '../../../src/platform/index.js';
import { createTable } from './create-table.js';

@Entity('cages')
@Unique('uq_cages_label', ['label'])
@Unique('uq_cages_room_position', ['room', 'shelfPosition'])
export class CageEntity {
  @IdColumn('pk_cages') id!: number;
  @Column('varchar', { length: 100 }) label!: string;
  @Column('varchar', { length: 20 }) room!: string;
  @Column('int', { name: 'shelf_position' }) shelfPosition!: number;
  @ForeignKey('categories', { name: 'fk_cages_category_id' })
  @Column('bigint', { name: 'category_id', nullable: true, transformer: bigintTransformer })
  categoryId!: number | null;
  @Column('double precision', { nullable: true }) weight!: number | null;
  @Column('boolean', { nullable: true }) locked!: boolean | null;
  @Column('bigint', { name: 'built_at', nullable: true, transformer: dateTimeTransformer })
  builtAt!: string | null;
  @VersionColumn() version!: number;
}

@Entity('toys')
@Unique('uq_toys_cage_id_name', ['cageId', 'name'])
class ToyEntity {
  @IdColumn('pk_toys', { type: 'uuid' }) id!: string;
  @ForeignKey('cages', { name: 'fk_toys_cage_id' })
  @Column('bigint', { name: 'cage_id', transformer: bigintTransformer })
  cageId!: number;
  @Column('varchar', { length: 50 }) name!: string;
  @Column('simple-json', { nullable: true }) size!: ToySize | null;
  @Column('bigint', { name: 'made_at', nullable: true, transformer: dateTimeTransformer })
  madeAt!: string | null;
  @Column('varchar', { name: 'seen_by', length: 50, nullable: true })
  seenBy!: string | null;
}

export class Cage {
  @Property({ type: 'integer', minimum: 1 }) id!: number;
  @Property({ type: 'string', minLength: 1, maxLength: 100 }) label!: string;
  @Property({ type: 'string', minLength: 1, maxLength: 20 }) room!: string;
  @Property({ type: 'integer', minimum: 1, maximum: 1_000_000 }) shelfPosition!: number;
  @Property({ type: 'integer', minimum: 1, optional: true }) categoryId?: number;
  @Property({ type: 'number', optional: true }) weight?: number;
  @Property({ type: 'boolean', optional: true }) locked?: boolean;
  @Property({ type: 'string', format: 'date-time', optional: true }) builtAt?: string;
}

class NewCage extends OmitType(Cage, ['id']) {}
class CagePatch extends MergePatch(NewCage, ['categoryId', 'weight', 'locked', 'builtAt']) {}

const toCage = ({ version: _version, ...row }: CageEntity): Complete<Cage> => ({
  ...row,
  categoryId: row.categoryId ?? undefined,
  weight: row.weight ?? undefined,
  locked: row.locked ?? undefined,
  builtAt: row.builtAt ?? undefined,
});

const limits = { minimum: 0, maximum: 1000 };

class ToySize {
  @Property({ type: 'integer', ...limits }) width!: number;
  @Property({ type: 'integer', ...limits, optional: true }) height?: number;
  @Property({ type: 'object', additionalProperties: { type: 'string' }, optional: true })
  notes?: Record<string, string>;
}

export class Toy {
  @Property({ type: 'string', format: 'uuid', readOnly: true }) toyId!: string;
  @Property({ type: 'string', minLength: 1, maxLength: 50 }) name!: string;
  @Property({ type: () => ToySize, optional: true, nullable: true }) size?: ToySize | null;
  @Property({ type: 'string', format: 'date-time', optional: true }) madeAt?: string;
  @Property({ type: 'string', readOnly: true, optional: true }) seenBy?: string;
}

class NewToy extends OmitType(Toy, ['toyId', 'seenBy']) {}
class ToyPatch extends MergePatch(NewToy, ['size', 'madeAt']) {}

class ToyEnvelope {
  @Property({ type: () => Toy }) readonly toy!: Toy;
}

class ToyPage {
  @Property({ type: 'integer', ...limits, default: 20 }) limit!: number;
  @Property({ type: 'string', format: 'uuid', optional: true }) after?: string;
  @Property({ type: 'integer', minimum: 0, optional: true }) offset?: number;
  @Property({ type: 'integer', minimum: 0, optional: true }) page?: number;
}

class ToyItem extends OmitType(Toy, ['seenBy']) {}

class ToyList {
  @Property({ type: 'array', items: { type: () => ToyItem } }) items!: ToyItem[];
  @Property({ type: 'integer' }) total!: number;
}

const toToy = ({ id, name, size, madeAt, seenBy }: ToyEntity): Complete<Toy> => ({
  toyId: id,
  name,
  size,
  madeAt: madeAt ?? undefined,
  seenBy: seenBy ?? undefined,
});

const created = { status: 201, response: 'What was created.' };
const CageId = () => IdParam('cageId');
const ToyId = () => IdParam('toyId', { type: 'uuid' });

@ApiTags('cages')
@Controller('cages')
export class CagesController {
  private readonly cages: Resource<CageEntity, Cage>;

  constructor(
    @InjectRepository(CageEntity) private readonly repository: Repository<CageEntity>,
    kit: ResourceKit,
  ) {
    this.cages = kit.resource(repository, { toBody: toCage });
  }

  @Post()
  @Operation({ operationId: 'createCage', ...created, returns: Cage, location: 'cages/{id}' })
  @ReturnsEtag()
  createCage(
    @Body() cage: NewCage,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Versioned<Cage>> {
    return this.cages.create(cage, key);
  }

  @Get()
  @Operation({ operationId: 'listCages', response: 'Cages.', returns: [Cage], list: 'pages' })
  listCages(@Query() page: PageParams, @Query('room') room?: string): Promise<CachedJsonResponse> {
    return this.cages.page(page, { room });
  }

  @Get(':cageId')
  @Operation({ operationId: 'getCage', response: 'The cage.', returns: Cage, errors: [404] })
  @ReturnsEtag()
  getCage(@CageId() id: number): Promise<Versioned<Cage>> {
    return this.cages.read({ id });
  }

  @Patch(':cageId')
  @Operation({ operationId: 'updateCage', response: 'The cage.', returns: Cage })
  @ReturnsEtag()
  updateCage(
    @CageId() id: number,
    @IfMatch() ifMatch: VersionCriteria,
    @JsonBody({ type: () => CagePatch }, { mergePatch: true }) patch: CagePatch,
  ): Promise<Versioned<Cage>> {
    return this.cages.patch({ id, ...ifMatch }, patch);
  }

  @Put(':cageId')
  @Operation({ operationId: 'replaceCage', response: 'The cage.', returns: Cage })
  async replaceCage(
    @CageId() id: number,
    @IfMatch({ required: true }) ifMatch: VersionCriteria,
    @Body() cage: NewCage,
  ): Promise<Cage> {
    return (await this.cages.replace({ id, ...ifMatch }, cage)).body;
  }

  /** An action with a rule: it locks a cage once, and creates another one. */
  @Post(':cageId/exchange')
  @Operation({ operationId: 'exchangeCage', ...created, returns: Cage, errors: [409] })
  exchangeCage(
    @CageId() id: number,
    @IfMatch() ifMatch: VersionCriteria,
    @Body() cage: NewCage,
    @IdempotencyKey() key?: IdempotencyKey,
  ): Promise<Cage> {
    const criteria = { id, ...ifMatch };
    return transactionOnce(this.repository.manager.dataSource, key, async (manager) => {
      const cages = manager.getRepository(CageEntity);
      const locked = await updateReturning(cages, { ...criteria, locked: false }, { locked: true });
      if (locked === undefined) {
        await this.cages.getRow(criteria, manager);
        throw new ApiError('RESOURCE_IN_USE', `Cage ${id} is locked.`);
      }
      return toCage(await insertReturning(cages, cage));
    });
  }

  @Delete(':cageId')
  @Operation({ operationId: 'deleteCage', status: 204, response: 'The cage was deleted.' })
  async deleteCage(
    @CageId() id: number,
    @IfMatch({ required: true }) ifMatch: VersionCriteria,
  ): Promise<void> {
    await this.cages.delete({ id, ...ifMatch });
  }
}

/** A resource below another, with a UUID that clients know by another name. Its list is public; responses are envelopes. */
@ApiTags('cages')
@Controller('cages/:cageId/toys')
class ToysController {
  private readonly toys: Resource<ToyEntity, Toy>;
  private readonly cages: Resource<CageEntity, CageEntity>;

  constructor(
    @InjectRepository(ToyEntity) toys: Repository<ToyEntity>,
    @InjectRepository(CageEntity) cages: Repository<CageEntity>,
    kit: ResourceKit,
  ) {
    this.toys = kit.resource(toys, {
      toBody: toToy,
      parent: 'cageId',
      dto: NewToy,
      envelope: (all, { total, next }) => ({
        items: all.map(({ seenBy: _seenBy, ...item }) => item),
        total,
        next,
      }),
    });
    this.cages = kit.resource(cages, { toBody: (cage) => cage });
  }

  @Get()
  @Public()
  @Operation({ operationId: 'listToys', response: 'Toys.', returns: ToyList, list: 'pages' })
  async listToys(
    @CageId() cageId: number,
    @Query() { limit, after, offset, page }: ToyPage,
  ): Promise<CachedJsonResponse> {
    await this.cages.getRow({ id: cageId });
    const byOffset = offset === undefined ? { after } : { offset };
    return this.toys.page({ limit, ...(page === undefined ? byOffset : { page }) }, { cageId });
  }

  @Post()
  @Operation({
    operationId: 'createToy',
    unsupportedQuery: { filter: { type: 'object', additionalProperties: true } },
    ...created,
    returns: ToyEnvelope,
    location: 'toys/{toy.toyId}',
  })
  async createToy(
    @CageId() cageId: number,
    @Body() toy: NewToy,
    @IdempotencyKey() key: IdempotencyKey | undefined,
  ): Promise<ToyEnvelope> {
    const requireCage = (manager: EntityManager) => this.cages.getRow({ id: cageId }, manager);
    const rule = toy.name === 'required' ? requireCage : undefined;
    const row = Object.assign(toy, { cageId, seenBy: 'the service' });
    return { toy: await this.toys.create(row, key, rule) };
  }

  @Get(':toyId')
  @Operation({ operationId: 'getToy', response: 'The toy.', returns: Toy })
  getToy(@CageId() cageId: number, @ToyId() id: string): Promise<Toy> {
    return this.toys.read({ id, cageId });
  }

  @Put(':toyId')
  @Operation({ operationId: 'replaceToy', response: 'The toy.', returns: Toy })
  replaceToy(@CageId() cageId: number, @ToyId() id: string, @Body() toy: Toy): Promise<Toy> {
    const { ...row } = toy;
    return this.toys.replace({ id, cageId }, { ...row, cageId }, ['seenBy']);
  }

  @Patch(':toyId')
  @Operation({ operationId: 'updateToy', response: 'The toy.', returns: Toy })
  updateToy(
    @CageId() cageId: number,
    @ToyId() id: string,
    @JsonBody({ type: () => ToyPatch }, { mergePatch: true }) patch: ToyPatch,
  ): Promise<Toy> {
    return this.toys.patch({ id, cageId }, patch);
  }

  @Delete(':toyId')
  @Operation({ operationId: 'deleteToy', status: 204, response: 'The toy was deleted.' })
  async deleteToy(@CageId() cageId: number, @ToyId() id: string): Promise<void> {
    await this.toys.delete({ id, cageId });
  }
}

/** A feature for `startApp` that uses every part of the resource kit, with constraints, references and values of each type. */
@Feature({
  tag: [
    { name: 'cages', description: 'Cages.' },
    { name: 'categories', description: 'Another description.' },
  ],
  entities: [CageEntity, ToyEntity],
  migrations: [
    createTable(CageEntity, 1790000000001),
    createTable(ToyEntity, 1790000000002, { type: 'uuid' }),
  ],
  controllers: [CagesController, ToysController],
})
export class CagesModule {}
