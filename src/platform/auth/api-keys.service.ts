import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, IsNull, MoreThan, Repository } from 'typeorm';
import { isDataOrConstraintError } from '../database/driver-errors.js';
import { coalesce } from '../database/coalesce.js';
import { ApiKey } from './api-key.entity.js';

/** Milliseconds after which a key that was found valid is looked up again: a revoked one stops within them. */
const KEY_CACHE_TTL_MS = 2_000;
/** How many recently used keys are remembered. */
const KEY_CACHE_SIZE = 1_000;
const MINUTE = 60_000;
/** Milliseconds between two readings of the whole table (see `isListed`). */
const LISTING_PAUSE = 100;
/** Milliseconds in which the last uses of several keys are gathered into one write. */
const LAST_USED_FLUSH_DELAY_MS = 1_000;

interface CachedKey {
  readonly key: ApiKey;
  readonly checkedAt: number;
}

/** Creates, checks, lists and revokes API keys. */
@Injectable()
export class ApiKeysService implements BeforeApplicationShutdown {
  private readonly logger = new Logger(ApiKeysService.name);
  /**
   * Keys found valid a moment ago, by the key itself, so that a busy client costs neither a hash
   * (3 us) nor a query a request. The oldest entry goes first.
   */
  private readonly keyCache = new Map<string, CachedKey>();
  /** The hashes of the keys that were valid when the table was last read. */
  private listed = new Set<string>();
  private listingPause: Promise<unknown> = Promise.resolve();
  private readonly readListed = coalesce(async () => {
    await this.listingPause;
    const valid = { revokedAt: IsNull() };
    const records = await this.keys.find({
      select: { hash: true },
      where: [
        { ...valid, expiresAt: IsNull() },
        { ...valid, expiresAt: MoreThan(new Date()) },
      ],
    });
    this.listed = new Set(records.map(({ hash }) => hash));
    this.listingPause = delay(LISTING_PAUSE, undefined, { ref: false });
  });
  /** The ids of the keys used, by the minute of their use. */
  private readonly pendingLastUsed = new Map<number, number[]>();
  private flushTimer: NodeJS.Timeout | undefined;

  constructor(@InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>) {}

  /**
   * Tells without a query whether a key is valid that was found so a moment ago; false where that
   * must be looked up. A revoked key stays valid for `RECHECK_AFTER` milliseconds at most, an
   * expired one not at all.
   */
  isCachedAndValid(key: string): boolean {
    const now = Date.now();
    const keyCache = this.keyCache.get(key);
    if (keyCache === undefined || Math.abs(now - keyCache.checkedAt) >= KEY_CACHE_TTL_MS)
      return false;
    return this.checkExpiryAndTouch(keyCache.key, now);
  }

  /** Looks a key up, with one query, and tells whether it is valid now. A new key is valid at once. */
  async isValid(key: string): Promise<boolean> {
    const now = Date.now();
    const hash = hashKey(key);
    const record = await this.keys.findOneBy({ hash, revokedAt: IsNull() });
    const before = this.keyCache.get(key)?.key;
    this.keyCache.delete(key);
    if (record === null && before !== undefined) {
      this.logger.log(`API key ${before.id} (${before.name}) was revoked: it lets nobody in`);
    }
    if (record === null || !this.checkExpiryAndTouch(record, now)) {
      this.listed.delete(hash);
      return false;
    }
    this.keyCache.set(key, { key: record, checkedAt: now });
    if (this.keyCache.size > KEY_CACHE_SIZE)
      this.keyCache.delete(this.keyCache.keys().next().value!);
    return true;
  }

  /**
   * Tells as `isValid`, but costs a query of its own only where the key is valid, or was until
   * lately. For any number of unknown keys the table is read at most once in `LISTING_PAUSE`
   * milliseconds, all together; a key that was created before it is asked for is found.
   */
  async isListedAndValid(key: string): Promise<boolean> {
    const hash = hashKey(key);
    if (!this.listed.has(hash)) await this.readListed();
    return this.listed.has(hash) && this.isValid(key);
  }

  /**
   * Creates a key.
   *
   * @returns the key, which is to be had only here, and its record
   */
  async create(
    name: string,
    expiresAt: Date | null = null,
  ): Promise<{ key: string; record: ApiKey }> {
    const key = `pet_${randomBytes(32).toString('base64url')}`;
    return { key, record: await this.insert(key, name, expiresAt) };
  }

  /** Makes sure that a key from the configuration exists. One that was revoked stays revoked. */
  async ensureKey(key: string, name: string): Promise<void> {
    const record = await this.keys.findOneBy({ hash: hashKey(key) });
    if (record === null) {
      await this.insert(key, name, null).catch((error: unknown) => {
        // Another process that starts at the same moment was faster.
        if (!isDataOrConstraintError(error)) throw error;
      });
    } else if (record.revokedAt !== null)
      this.logger.warn(`The ${name} key is revoked: it lets nobody in`);
  }

  /** Every key, in the order of creation. */
  list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  async isEmpty(): Promise<boolean> {
    return !(await this.keys.exists());
  }

  /**
   * Revokes a key.
   *
   * @returns false where there is no such key, or it was revoked before
   */
  async revoke(id: number): Promise<boolean> {
    const { affected } = await this.keys.update(
      { id, revokedAt: IsNull() },
      { revokedAt: new Date() },
    );
    if (affected === 1) this.logger.log(`Revoked API key ${id}`);
    return affected === 1;
  }

  async beforeApplicationShutdown(): Promise<void> {
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
    if (now - (record.lastUsedAt?.getTime() ?? 0) >= MINUTE) {
      const minute = now - (now % MINUTE);
      record.lastUsedAt = new Date(minute);
      this.pendingLastUsed.set(minute, [...(this.pendingLastUsed.get(minute) ?? []), record.id]);
      this.flushTimer ??= setTimeout(
        () => void this.flushLastUsed(),
        LAST_USED_FLUSH_DELAY_MS,
      ).unref();
    }
    return true;
  }

  /** A use that cannot be written is no reason to refuse it, nor to fail: it is logged. */
  private async flushLastUsed(): Promise<void> {
    this.flushTimer = undefined;
    const uses = [...this.pendingLastUsed];
    this.pendingLastUsed.clear();
    try {
      for (const [minute, ids] of uses) {
        await this.keys.update({ id: In(ids) }, { lastUsedAt: new Date(minute) });
      }
    } catch (error) {
      this.logger.warn('The last use of some API keys was not written', error);
    }
  }
}

function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
