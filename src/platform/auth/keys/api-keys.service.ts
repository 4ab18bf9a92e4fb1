import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, Repository } from 'typeorm';
import {
  DatabaseUnavailableError,
  isDataOrConstraintError,
} from '../../database/connection/driver-errors.js';
import { ApiKey, type Scope, SCOPES } from './api-key.entity.js';
import { generateKey, hashKey } from './key-format.js';

/** How long a valid key is cached, in milliseconds: a revocation takes effect within this time. */
const KEY_CACHE_TTL_MS = 2_000;
const KEY_CACHE_SIZE = 10_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long before its expiry the use of a key is logged, in milliseconds. */
const EXPIRY_WARNING_MS = 7 * DAY_MS;

/** The properties of a new key; by default it does not expire, and has all scopes and no limit of its own. */
export interface KeyOptions {
  readonly expiresAt?: Date | null;
  readonly scopes?: readonly Scope[];
  readonly requestsPerMinute?: number | null;
}

/** Creates, verifies, lists and revokes API keys. */
@Injectable()
export class ApiKeysService implements OnApplicationShutdown {
  private readonly logger = new Logger(ApiKeysService.name);
  /** Recently used valid keys, by the key itself: a request with one needs neither a hash (3 µs) nor a query. */
  private readonly keyCache = new Map<string, { key: ApiKey; checkedAt: number }>();
  /** Resolves when the last-used times of all keys are written. */
  private lastUsedWrites = Promise.resolve();
  /** When the expiry of a key was last logged, by its id. */
  private readonly expiryWarnings = new Map<number, number>();

  constructor(@InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>) {}

  /** Returns the record of a valid key without a query; undefined if it must be looked up. */
  getCached(key: string): ApiKey | undefined {
    const cached = this.keyCache.get(key);
    if (cached === undefined || performance.now() - cached.checkedAt >= KEY_CACHE_TTL_MS)
      return undefined;
    return this.checkUse(cached.key, Date.now()) ? cached.key : undefined;
  }

  /** Whether a key was valid when it was last used. */
  isCached(key: string): boolean {
    return this.keyCache.has(key);
  }

  /** Looks up the record of a valid key; undefined if the key is not valid. A new key is valid immediately. */
  async lookUp(key: string): Promise<ApiKey | undefined> {
    const now = Date.now();
    const checkedAt = performance.now();
    const record = await this.keys.findOneBy({ hash: hashKey(key), revokedAt: IsNull() });
    const cached = this.keyCache.get(key)?.key;
    this.keyCache.delete(key);
    if (record === null && cached !== undefined) {
      this.logger.log(`API key ${cached.id} (${cached.name}) is revoked, rejecting request`);
    }
    if (record === null || !this.checkUse(record, now)) return undefined;
    this.warnOfExpiry(record, now);
    this.keyCache.set(key, { key: record, checkedAt });
    if (this.keyCache.size > KEY_CACHE_SIZE)
      this.keyCache.delete(this.keyCache.keys().next().value!);
    return record;
  }

  /** Creates a key, which is not stored and cannot be retrieved later. */
  async create(name: string, options: KeyOptions = {}): Promise<{ key: string; record: ApiKey }> {
    const key = generateKey();
    const record = await this.insert(this.keys, key, name, options);
    this.logCreation(record);
    return { key, record };
  }

  /**
   * Creates a key that replaces another one, with its name, scopes, limit and lifetime.
   *
   * @param overlap milliseconds until the old key expires
   * @returns undefined if the old key does not exist or is not valid any more
   */
  async rotate(
    id: number,
    overlap: number,
  ): Promise<{ key: string; record: ApiKey; replaced: ApiKey } | undefined> {
    const key = generateKey();
    const rotation = await this.keys.manager.transaction(async (manager) => {
      const keys = manager.getRepository(ApiKey);
      const now = Date.now();
      const old = await keys.findOneBy({ id, revokedAt: IsNull() });
      if (old === null || expiresBefore(old, now)) return undefined;
      const { name, createdAt, expiresAt, scopes, requestsPerMinute } = old;
      const record = await this.insert(keys, key, name, {
        expiresAt:
          expiresAt === null ? null : new Date(now + expiresAt.getTime() - createdAt.getTime()),
        scopes: scopes.split(' ') as Scope[],
        requestsPerMinute,
      });
      const end = new Date(Math.min(now + overlap, expiresAt?.getTime() ?? Infinity));
      await keys.update(id, { expiresAt: end });
      return { key, record, replaced: Object.assign(old, { expiresAt: end }) };
    });
    if (rotation === undefined) return undefined;
    // Not within the transaction, which may be repeated.
    const { record, replaced } = rotation;
    this.logCreation(record);
    const end = replaced.expiresAt.toISOString();
    this.logger.log(`Rotated API key ${id} (${record.name}), which expires at ${end}`);
    return rotation;
  }

  /**
   * Creates a key from the configuration unless it exists. A revoked or expired key stays so, and a former one stays
   * valid, because its clients may not have the new one yet.
   */
  async ensureKey(key: string, name: string): Promise<void> {
    const record = await this.keys.findOneBy({ hash: hashKey(key) });
    if (record === null) {
      const former = await this.keys.findBy({ name, revokedAt: IsNull() });
      const logChange = (created: ApiKey): void => {
        this.logCreation(created);
        for (const { id } of former.filter((each) => !expiresBefore(each, Date.now())))
          this.logger.warn(
            `BOOTSTRAP_API_KEY has changed. The former API key ${id} (${name}) stays valid until it is revoked with: node dist/cli/keys.js revoke ${id}`,
          );
      };
      await this.insert(this.keys, key, name).then(logChange, (error: unknown) => {
        // Another process that starts at the same time has created it.
        if (!isDataOrConstraintError(error)) throw error;
      });
    } else if (record.revokedAt !== null || expiresBefore(record, Date.now())) {
      const state = record.revokedAt === null ? 'expired' : 'revoked';
      this.logger.warn(`BOOTSTRAP_API_KEY is ${state} and will be rejected`);
    }
  }

  /** Returns all keys in the order of their creation. */
  list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  /** Returns the number of keys in recent use that expire within a week. */
  countExpiring(): number {
    const now = Date.now();
    return [...this.keyCache.values()].filter(
      ({ key }) => !expiresBefore(key, now) && expiresBefore(key, now + EXPIRY_WARNING_MS),
    ).length;
  }

  /** Revokes a key; false if it does not exist or was revoked before. */
  async revoke(id: number): Promise<boolean> {
    const valid = { id, revokedAt: IsNull() };
    const { affected } = await this.keys.update(valid, { revokedAt: new Date() });
    if (affected === 1) this.logger.log(`Revoked API key ${id}`);
    return affected === 1;
  }

  /** Runs after the server has drained, so that the last requests count, too. */
  async onApplicationShutdown(): Promise<void> {
    await this.lastUsedWrites;
  }

  private async insert(
    keys: Repository<ApiKey>,
    key: string,
    name: string,
    { expiresAt = null, scopes = SCOPES, requestsPerMinute = null }: KeyOptions = {},
  ): Promise<ApiKey> {
    const row = { name, scopes: scopes.join(' '), requestsPerMinute, expiresAt };
    return keys.save({ ...row, hash: hashKey(key), createdAt: new Date() });
  }

  private readonly logCreation = ({ id, name }: ApiKey): void =>
    this.logger.log(`Created API key ${id} (${name})`);

  /** Logs once a day that a key that is in use expires soon. */
  private warnOfExpiry(record: ApiKey, now: number): void {
    const sinceWarning = performance.now() - (this.expiryWarnings.get(record.id) ?? -Infinity);
    if (!expiresBefore(record, now + EXPIRY_WARNING_MS) || sinceWarning < DAY_MS) return;
    this.expiryWarnings.set(record.id, performance.now());
    this.logger.warn(
      `API key ${record.id} (${record.name}) is in use and expires at ${record.expiresAt!.toISOString()}. Replace it with: node dist/cli/keys.js rotate ${record.id} --overlap 7d`,
    );
  }

  /**
   * Returns whether a key has not expired, and records its use, at most once an hour unless the clock was ahead: on
   * SQLite every write invalidates the cached lists.
   */
  private checkUse(record: ApiKey, now: number): boolean {
    if (expiresBefore(record, now)) return false;
    const sinceLastUse = now - (record.lastUsedAt?.getTime() ?? 0);
    if (sinceLastUse < 0 || sinceLastUse >= HOUR_MS) {
      record.lastUsedAt = new Date(now);
      this.lastUsedWrites = this.lastUsedWrites.then(() => this.writeLastUsed(record));
    }
    return true;
  }

  /** A failure is only logged: it must not affect requests. */
  private async writeLastUsed({ id, lastUsedAt }: ApiKey): Promise<void> {
    try {
      await this.keys.update(id, { lastUsedAt });
    } catch (error) {
      if (error instanceof DatabaseUnavailableError) return;
      this.logger.warn('Failed to write the last use of an API key', error);
    }
  }
}

function expiresBefore({ expiresAt }: ApiKey, time: number): boolean {
  return expiresAt !== null && expiresAt.getTime() <= time;
}
