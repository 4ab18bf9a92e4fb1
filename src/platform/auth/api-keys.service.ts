import { createHash, randomBytes } from 'node:crypto';
import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, IsNull, Repository } from 'typeorm';
import { DatabaseUnavailableError, isDataOrConstraintError } from '../database/driver-errors.js';
import { ApiKey } from './api-key.entity.js';

/** How long a valid key is cached, in milliseconds: a revocation takes effect within this time. */
const KEY_CACHE_TTL_MS = 2_000;
const KEY_CACHE_SIZE = 1_000;
/** How long the last-used times of keys are collected before they are written together, in milliseconds. */
const LAST_USED_FLUSH_DELAY_MS = 1_000;
const MINUTE_MS = 60_000;

interface CachedKey {
  readonly key: ApiKey;
  readonly checkedAt: number;
}

/** Creates, verifies, lists and revokes API keys. */
@Injectable()
export class ApiKeysService implements OnApplicationShutdown {
  private readonly logger = new Logger(ApiKeysService.name);
  /**
   * Recently used valid keys, by the key itself: a request with one needs neither a hash (3 µs) nor a
   * query. The oldest entry is evicted first.
   */
  private readonly keyCache = new Map<string, CachedKey>();
  /** The ids of the keys that were used, by the minute of their use. */
  private readonly pendingLastUsed = new Map<number, number[]>();
  private flushTimer: NodeJS.Timeout | undefined;

  constructor(@InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>) {}

  /**
   * Returns the record of a valid key without a query.
   *
   * @returns undefined if it must be looked up. A revoked key is returned for `KEY_CACHE_TTL_MS` at most,
   *   an expired one never.
   */
  getCached(key: string): ApiKey | undefined {
    const now = Date.now();
    const cached = this.keyCache.get(key);
    if (cached === undefined || Math.abs(now - cached.checkedAt) >= KEY_CACHE_TTL_MS)
      return undefined;
    return this.checkExpiryAndTouch(cached.key, now) ? cached.key : undefined;
  }

  /** Whether a key was valid when it was last used. */
  isCached(key: string): boolean {
    return this.keyCache.has(key);
  }

  /** Looks up the record of a valid key; undefined if the key is not valid. A new key is valid immediately. */
  async lookUp(key: string): Promise<ApiKey | undefined> {
    const now = Date.now();
    const record = await this.keys.findOneBy({ hash: hashKey(key), revokedAt: IsNull() });
    const cached = this.keyCache.get(key)?.key;
    this.keyCache.delete(key);
    if (record === null && cached !== undefined) {
      this.logger.log(`API key ${cached.id} (${cached.name}) is revoked, rejecting request`);
    }
    if (record === null || !this.checkExpiryAndTouch(record, now)) return undefined;
    this.keyCache.set(key, { key: record, checkedAt: now });
    if (this.keyCache.size > KEY_CACHE_SIZE)
      this.keyCache.delete(this.keyCache.keys().next().value!);
    return record;
  }

  /**
   * Creates a key.
   *
   * @returns the key, which is not stored and cannot be retrieved later, and its record
   */
  async create(
    name: string,
    expiresAt: Date | null = null,
  ): Promise<{ key: string; record: ApiKey }> {
    const key = `pet_${randomBytes(32).toString('base64url')}`;
    return { key, record: await this.insert(key, name, expiresAt) };
  }

  /** Creates a key from the configuration unless it exists. A revoked key stays revoked. */
  async ensureKey(key: string, name: string): Promise<void> {
    const record = await this.keys.findOneBy({ hash: hashKey(key) });
    if (record === null) {
      await this.insert(key, name, null).catch((error: unknown) => {
        // Another process that starts at the same time has created it.
        if (!isDataOrConstraintError(error)) throw error;
      });
    } else if (record.revokedAt !== null)
      this.logger.warn('BOOTSTRAP_API_KEY is revoked and will be rejected');
  }

  /** Returns all keys in the order of their creation. */
  list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  /** Whether there are no keys, not even revoked ones. */
  async isEmpty(): Promise<boolean> {
    return !(await this.keys.exists());
  }

  /**
   * Revokes a key.
   *
   * @returns false if the key does not exist or was revoked before
   */
  async revoke(id: number): Promise<boolean> {
    const { affected } = await this.keys.update(
      { id, revokedAt: IsNull() },
      { revokedAt: new Date() },
    );
    if (affected === 1) this.logger.log(`Revoked API key ${id}`);
    return affected === 1;
  }

  /** Runs after the server has drained, so that the last requests count, too. */
  async onApplicationShutdown(): Promise<void> {
    clearTimeout(this.flushTimer);
    await this.flushLastUsed();
  }

  private async insert(key: string, name: string, expiresAt: Date | null): Promise<ApiKey> {
    const record = await this.keys.save({
      name,
      hash: hashKey(key),
      createdAt: new Date(),
      expiresAt,
    });
    this.logger.log(`Created API key ${record.id} (${name})`);
    return record;
  }

  private checkExpiryAndTouch(record: ApiKey, now: number): boolean {
    if (record.expiresAt !== null && record.expiresAt.getTime() <= now) return false;
    if (now - (record.lastUsedAt?.getTime() ?? 0) >= MINUTE_MS) {
      const minute = now - (now % MINUTE_MS);
      record.lastUsedAt = new Date(minute);
      this.pendingLastUsed.set(minute, [...(this.pendingLastUsed.get(minute) ?? []), record.id]);
      this.flushTimer ??= setTimeout(
        () => void this.flushLastUsed(),
        LAST_USED_FLUSH_DELAY_MS,
      ).unref();
    }
    return true;
  }

  /** A failure is only logged: it must not affect requests. */
  private async flushLastUsed(): Promise<void> {
    this.flushTimer = undefined;
    const pending = [...this.pendingLastUsed];
    this.pendingLastUsed.clear();
    try {
      for (const [minute, ids] of pending) {
        await this.keys.update({ id: In(ids) }, { lastUsedAt: new Date(minute) });
      }
    } catch (error) {
      if (error instanceof DatabaseUnavailableError) return;
      this.logger.warn('Failed to persist API key last-used timestamps', error);
    }
  }
}

/** Returns the SHA-256 of a key, in lower-case hex. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
