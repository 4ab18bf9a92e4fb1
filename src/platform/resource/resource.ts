import type { Type } from '@nestjs/common';
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import type { Config } from '../config/config.js';
import { isForeignKeyViolation } from '../database/connection/driver-errors.js';
import { runTransaction } from '../database/connection/run-transaction.js';
import { CachedList, type ListServices } from '../database/lists/cached-list.js';
import { type PageRequest, type Paging, toPosition } from '../database/lists/list-rows.js';
import { type Paths, toConstraintError } from './constraint-error.js';
import {
  convertsValues,
  type Criteria,
  type InsertRow,
  requireColumns,
} from '../database/statements/statement-parts.js';
import { ApiError } from '../errors/api-error.js';
import { CachedJsonResponse } from '../http/responses/cached-json-response.js';
import { toVersionEtag } from '../http/responses/etag.js';
import type { IdempotencyKey } from '../idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../idempotency/idempotency-records.js';
import { CreateQueue } from '../idempotency/create-queue.js';
import { applyMergePatch, type PatchValue } from './merge-patch.js';
import { isObject, type Schema } from '../validation/schema.js';
import { getFields } from '../validation/schema-rules.js';
import {
  type Changes,
  deleteReturning,
  insertReturning,
  selectOne,
  updateReturning,
} from '../database/statements/row-statements.js';
import { validateJson } from '../validation/validation.pipe.js';
import { Versioned } from '../http/responses/versioned.js';

/** A DTO whose optional properties must be mentioned, too: a converter cannot forget one that is added later. */
export type Complete<Body> = { [Name in keyof Required<Body>]: Body[Name] };

/** What the operations on a resource return: with its version, if the entity has a `VersionColumn` named `version`. */
export type Result<Entity, Body> = Entity extends { version: number } ? Versioned<Body> : Body;

/** The result of a JSON merge patch (RFC 7396): null removes an optional property, and undefined leaves one unchanged. */
export type RowPatch<Entity> = {
  readonly [Name in Exclude<keyof Entity, 'id' | 'version'>]?: PatchValue<Entity[Name]> | undefined;
};

export interface ResourceOptions<Entity, Body> {
  /** Converts a row to what clients see. */
  readonly toBody: (row: Entity) => Complete<Body>;
  /** Where the body has a property of the entity, if elsewhere, for messages: such as `{ petId: 'pet.id', ownerId: null }`. */
  readonly paths?: Paths;
  /** The property that refers to the resource in the path of a `create` request: if that does not exist, it is 404. */
  readonly parent?: keyof Entity & string;
  /** Creates the body of a list that is not an array. The rows of pages are counted then. */
  readonly envelope?: (items: Body[], paging: Paging & { readonly total: number }) => object;
  /** The DTO of a request body, which validates the objects in JSON columns after a merge patch has changed them. */
  readonly dto?: Type<object>;
}

/** Returns the size of a JSON value in bytes. */
const getSize = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** The types of columns whose values may be objects, which a merge patch merges. */
const JSON_TYPES = new Set<unknown>(['json', 'jsonb', 'simple-json']);

/**
 * Lists, creates, reads, replaces, patches and deletes the rows of an entity, as clients expect it of a resource: each
 * request gets a response within 5 seconds, and an error with a code if it violates a constraint. Criteria are
 * usually the id, such as `{ id }`, and may have the versions of If-Match: `{ id, ...ifMatch }`.
 */
export class Resource<Entity extends ObjectLiteral, Body> {
  private readonly cachedList: CachedList<Entity>;
  /** Known once the database is open. */
  private convertsValues: boolean | undefined;
  private readonly creates: CreateQueue<Entity, Result<Entity, Body>>;

  constructor(
    private readonly repository: Repository<Entity>,
    private readonly options: ResourceOptions<Entity, Body>,
    private readonly services: ListServices & { readonly config: Config },
  ) {
    const { toBody, envelope } = options;
    this.cachedList = new CachedList(
      repository,
      async (chunks, paging) => {
        if (envelope === undefined) return CachedJsonResponse.ofList(chunks, toBody, paging);
        const items: Body[] = [];
        for await (const rows of chunks) items.push(...rows.map(toBody));
        const body = envelope(items, { ...paging, total: paging.total ?? items.length });
        return CachedJsonResponse.ofObject(body, paging.next);
      },
      services,
      envelope !== undefined,
    );
    this.creates = new CreateQueue(repository, (row) => this.toResult(row), services.metrics);
  }

  /** Returns all resources in id order, including every change acknowledged before the call. */
  list(filters?: Criteria<Entity>): Promise<CachedJsonResponse> {
    return this.cachedList.get(filters);
  }

  /**
   * Returns a page of the resources in id order; see {@link CachedList} for what is guaranteed.
   *
   * @throws {ApiError} VALIDATION_FAILED if there is no such page
   */
  async page(page: PageRequest, filters?: Criteria<Entity>): Promise<CachedJsonResponse> {
    const { start, parameter } = toPosition(page);
    // SQLite ignores a negative LIMIT or OFFSET, and PostgreSQL rejects it.
    if (![page.limit - 1, start].every((each) => Number.isInteger(each) && each >= 0))
      throw new ApiError('VALIDATION_FAILED', `limit or ${parameter} is before the first row`);
    return this.cachedList.getPage(page, filters);
  }

  /**
   * Creates a resource, once for each Idempotency-Key. It is durable when the promise resolves.
   *
   * @param rule checks what no constraint does, in the transaction of the row: such as the parent of the parent. A repeated
   *   request is not asked. Rows that have one are not inserted in batches, nor are those whose
   *   values the database may convert.
   * @throws {ApiError} VALIDATION_FAILED (a reference); NOT_FOUND (the parent); ALREADY_EXISTS; IDEMPOTENCY_KEY_REUSED
   */
  create(
    row: InsertRow<Entity>,
    key?: IdempotencyKey,
    rule?: (manager: EntityManager) => Promise<unknown>,
  ): Promise<Result<Entity, Body>> {
    const { target, manager } = this.repository;
    const insertAlone = async (transaction: EntityManager): Promise<Result<Entity, Body>> => {
      await rule?.(transaction);
      const rows = transaction.getRepository<Entity>(target);
      return this.toResult(await insertReturning(rows, row));
    };
    const inserted =
      rule || (this.convertsValues ??= convertsValues(this.repository))
        ? transactionOnce(manager.dataSource, key, insertAlone)
        : this.creates.add(row, key);
    return this.convertErrors(row, inserted, this.options.parent);
  }

  /** @throws {ApiError} NOT_FOUND */
  async read(criteria: Criteria<Entity>): Promise<Result<Entity, Body>> {
    return this.toResult(await this.getRow(criteria));
  }

  /**
   * Returns a row, such as the parent of another, by default outside of transactions.
   *
   * @throws {ApiError} NOT_FOUND; PRECONDITION_FAILED
   */
  async getRow(criteria: Criteria<Entity>, manager = this.repository.manager): Promise<Entity> {
    const repository = manager.getRepository<Entity>(this.repository.target);
    return (await selectOne(repository, criteria)) ?? this.throwNotFound(criteria, repository);
  }

  /**
   * Replaces a resource. A property that the row lacks becomes null if it may be null, unless it is one of the criteria.
   *
   * @param kept the properties that keep their values if the row lacks them
   * @throws {ApiError} NOT_FOUND; PRECONDITION_FAILED; VALIDATION_FAILED if a reference does not exist; ALREADY_EXISTS
   */
  async replace<Kept extends keyof InsertRow<Entity> = never>(
    criteria: Criteria<Entity>,
    row: Omit<InsertRow<Entity>, Kept> & Partial<InsertRow<Entity>>,
    kept: readonly Kept[] = [],
  ): Promise<Result<Entity, Body>> {
    requireColumns(this.repository, row);
    const values: ObjectLiteral = row;
    const keeps = new Set<PropertyKey>([...Object.keys(criteria), ...kept]);
    const changes = this.repository.metadata.columns
      .filter(({ isPrimary, isVersion }) => !isPrimary && !isVersion)
      .map(({ propertyName: name, isNullable }): [string, unknown] => [
        name,
        values[name] ?? (isNullable && !keeps.has(name) ? null : undefined),
      ]);
    return this.update(criteria, Object.fromEntries(changes) as Changes<Entity>);
  }

  /**
   * Applies a JSON merge patch (RFC 7396) to a resource. Objects in JSON columns are merged.
   *
   * @throws {ApiError} NOT_FOUND; PRECONDITION_FAILED; VALIDATION_FAILED if a reference does not exist, or the result of
   *   a merge is invalid; PAYLOAD_TOO_LARGE if it is larger than a body may be, and not smaller than before; ALREADY_EXISTS
   */
  async patch(criteria: Criteria<Entity>, patch: RowPatch<Entity>): Promise<Result<Entity, Body>> {
    const { id: _id, version: _version, ...values } = patch as ObjectLiteral;
    const { manager, metadata, target } = this.repository;
    const names = metadata.columns
      .filter(({ type, propertyName }) => JSON_TYPES.has(type) && isObject(values[propertyName]))
      .map(({ propertyName }) => propertyName);
    const changes = values as Changes<Entity>;
    if (names.length === 0) return this.update(criteria, changes);
    const merged = runTransaction(manager.dataSource, async (transaction) => {
      const rows = transaction.getRepository<Entity>(target);
      // The lock keeps the changes of other requests.
      const row = await selectOne(rows, criteria, { lock: true });
      return row && updateReturning(rows, criteria, await this.merge(row, values, names));
    });
    return this.update(criteria, changes, merged);
  }

  /**
   * Deletes a resource, and returns it as it was.
   *
   * @throws {ApiError} NOT_FOUND; PRECONDITION_FAILED; RESOURCE_IN_USE if another resource refers to it
   */
  async delete(criteria: Criteria<Entity>): Promise<Body> {
    try {
      const row = await deleteReturning(this.repository, criteria);
      return this.options.toBody(row ?? (await this.throwNotFound(criteria)));
    } catch (error) {
      if (!isForeignKeyViolation(error)) throw error;
      const message = 'Another resource refers to this one.';
      throw new ApiError('RESOURCE_IN_USE', message, { cause: error });
    }
  }

  private toResult(row: Entity): Result<Entity, Body> {
    const version = row['version'] as number | undefined;
    const body: Body = this.options.toBody(row);
    return (version === undefined ? body : new Versioned(version, body)) as Result<Entity, Body>;
  }

  /** Merges the objects of a patch into the values of JSON columns, and validates the results. */
  private async merge(
    row: ObjectLiteral,
    patch: ObjectLiteral,
    names: readonly string[],
  ): Promise<Changes<Entity>> {
    const { dto } = this.options;
    const { bodyLimit } = this.services.config;
    const merged: Record<string, unknown> = {};
    const properties: Record<string, Schema> = {};
    for (const name of names) {
      merged[name] = applyMergePatch(row[name], patch[name]);
      properties[name] = (dto && getFields(dto).declared.get(name)) ?? {};
      const size = getSize(merged[name]);
      if (size > bodyLimit && size >= getSize(row[name]))
        throw new ApiError('PAYLOAD_TOO_LARGE', `${name} would have more than ${bodyLimit} bytes.`);
    }
    const valid = (await validateJson({ type: 'object', properties }, merged)) as object;
    return { ...patch, ...valid } as Changes<Entity>;
  }

  private async update(
    criteria: Criteria<Entity>,
    changes: Changes<Entity>,
    updated = updateReturning(this.repository, criteria, changes),
  ): Promise<Result<Entity, Body>> {
    const changed = await this.convertErrors(changes, updated);
    return this.toResult(changed ?? (await this.throwNotFound(criteria)));
  }

  private convertErrors<T>(row: object, statement: Promise<T>, parent?: string): Promise<T> {
    return statement.catch(async (error: unknown) => {
      throw await toConstraintError(error, this.repository, row, this.options.paths, parent);
    });
  }

  /** @throws {ApiError} PRECONDITION_FAILED if a row meets the criteria but for its version, otherwise NOT_FOUND */
  private async throwNotFound(
    criteria: Criteria<Entity>,
    repository = this.repository,
  ): Promise<never> {
    const { version, ...others } = criteria as Criteria<ObjectLiteral>;
    const row = version && (await selectOne(repository, others as Criteria<Entity>));
    if (!row) throw new ApiError('NOT_FOUND', 'Resource not found.');
    const etag = toVersionEtag(row['version'] as number);
    throw new ApiError('PRECONDITION_FAILED', `The resource has changed: its ETag is now ${etag}.`);
  }
}
