import { Inject, Injectable, Logger } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, Repository } from 'typeorm';
import { isDataOrConstraintError } from '../../database/connection/driver-errors.js';
import { ApiKey, type Scope, SCOPES } from './api-key.entity.js';
import { CONFIG, type Config } from '../../config/config.js';
import { generateKey, hashKey } from '../../config/key-format.js';

/** The properties of a new key; by default it does not expire, and has all scopes and no limit of its own. */
export interface KeyOptions {
  readonly expiresAt?: Date | null;
  readonly scopes?: readonly Scope[];
  readonly requestsPerMinute?: number | null;
}

/** Creates, rotates, lists and revokes API keys. */
@Injectable()
export class ApiKeysService {
  private readonly logger = new Logger(ApiKeysService.name);

  constructor(
    @InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>,
    @Inject(CONFIG) private readonly config: Pick<Config, 'product'>,
  ) {}

  /** Creates a key. It cannot be retrieved later, because only its hash is stored. */
  async create(name: string, options: KeyOptions = {}): Promise<{ key: string; record: ApiKey }> {
    const key = generateKey(this.config.product.keyPrefixes[0]);
    const record = await this.save(this.keys, key, name, options);
    this.logCreation(record);
    return { key, record };
  }

  /**
   * Creates a key that replaces another one, with its name, scopes, limit and lifetime. A key is replaced only once: the
   * overlap shortens its expiry, from which the lifetime is computed.
   *
   * @param overlap milliseconds until the old key expires
   * @returns undefined if the old key does not exist or is not valid any more
   * @throws {Error} if the old key has a successor, which the message names
   */
  async rotate(
    id: number,
    overlap: number,
  ): Promise<{ key: string; record: ApiKey; replaced: ApiKey } | undefined> {
    const key = generateKey(this.config.product.keyPrefixes[0]);
    const rotation = await this.keys.manager.transaction(async (manager) => {
      const keys = manager.getRepository(ApiKey);
      const now = Date.now();
      const old = await keys.findOneBy({ id, revokedAt: IsNull() });
      if (old === null || expiresBefore(old, now)) return undefined;
      const { name, createdAt, expiresAt, scopes, requestsPerMinute } = old;
      const record = await this.save(keys, key, name, {
        expiresAt:
          expiresAt === null ? null : new Date(now + expiresAt.getTime() - createdAt.getTime()),
        scopes: scopes.split(' ') as Scope[],
        requestsPerMinute,
      });
      const end = new Date(Math.min(now + overlap, expiresAt?.getTime() ?? Infinity));
      const changes = { expiresAt: end, successorId: record.id };
      const { affected } = await keys.update({ id, successorId: IsNull() }, changes);
      if (affected === 0) {
        const { successorId } = await keys.findOneByOrFail({ id });
        throw new Error(`API key ${id} was replaced by API key ${successorId}: rotate that one.`);
      }
      return { key, record, replaced: Object.assign(old, { expiresAt: end }) };
    });
    if (rotation === undefined) return undefined;
    // Logged after the transaction, which may have been repeated.
    const { record, replaced } = rotation;
    this.logCreation(record);
    const end = replaced.expiresAt.toISOString();
    this.logger.log(`Rotated API key ${id} (${record.name}), which expires at ${end}`);
    return rotation;
  }

  /**
   * Creates the key of the configuration unless it exists. It stays revoked or expired if it is, and the former key stays
   * valid, because clients may not have the new one yet.
   */
  async ensureKey(key: string, name: string): Promise<void> {
    const record = await this.keys.findOneBy({ hash: hashKey(key) });
    if (record === null) {
      const former = await this.keys.findBy({ name, revokedAt: IsNull() });
      try {
        this.logCreation(await this.save(this.keys, key, name, {}));
      } catch (error) {
        // Another process that starts at the same time has created it.
        if (isDataOrConstraintError(error)) return;
        throw error;
      }
      for (const { id } of former.filter((each) => !expiresBefore(each, Date.now())))
        this.logger.warn(
          `BOOTSTRAP_API_KEY has changed. The former API key ${id} (${name}) stays valid until it is revoked with: node dist/cli/keys.js revoke ${id}`,
        );
    } else if (record.revokedAt !== null || expiresBefore(record, Date.now())) {
      const state = record.revokedAt === null ? 'expired' : 'revoked';
      this.logger.warn(`BOOTSTRAP_API_KEY is ${state} and will be rejected`);
    }
  }

  /** Returns the number of keys, including those that are expired or revoked. */
  count(): Promise<number> {
    return this.keys.count();
  }

  /**
   * Returns keys in the order of their creation.
   *
   * @param name returns only keys with this name
   * @param limit returns only the newest keys
   */
  async list(name?: string, limit?: number): Promise<ApiKey[]> {
    const where = name === undefined ? {} : { name };
    const newest = await this.keys.find({ where, order: { id: 'DESC' }, take: limit });
    return newest.toReversed();
  }

  /** Revokes a key; false if it does not exist or was revoked before. */
  async revoke(id: number): Promise<boolean> {
    const valid = { id, revokedAt: IsNull() };
    const { affected } = await this.keys.update(valid, { revokedAt: new Date() });
    if (affected === 1) this.logger.log(`Revoked API key ${id}`);
    return affected === 1;
  }

  private async save(
    keys: Repository<ApiKey>,
    key: string,
    name: string,
    { expiresAt = null, scopes = SCOPES, requestsPerMinute = null }: KeyOptions,
  ): Promise<ApiKey> {
    const row = { name, scopes: scopes.join(' '), requestsPerMinute, expiresAt };
    return keys.save({ ...row, hash: hashKey(key), createdAt: new Date() });
  }

  private logCreation({ id, name }: ApiKey): void {
    this.logger.log(`Created API key ${id} (${name})`);
  }
}

/** Returns whether a key expires at a time, in milliseconds since 1970, or before. */
export function expiresBefore({ expiresAt }: ApiKey, time: number): boolean {
  return expiresAt !== null && expiresAt.getTime() <= time;
}
