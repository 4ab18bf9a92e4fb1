import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, IsNull, MoreThan, Repository } from 'typeorm';
import { isRefusal } from '../database/driver-errors.js';
import { shareNext } from '../database/coalesce.js';
import { ApiKey } from './api-key.entity.js';

/** Milliseconds after which a key that was found valid is looked up again: a revoked one stops within them. */
const RECHECK_AFTER = 2_000;
/** How many recently used keys are remembered. */
const REMEMBERED_KEYS = 1_000;
const MINUTE = 60_000;
/** Milliseconds between two readings of the whole table (see `isListed`). */
const LISTING_PAUSE = 100;
/** Milliseconds in which the last uses of several keys are gathered into one write. */
const LAST_USE_DELAY = 1_000;

interface RecentKey {
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
  private readonly recent = new Map<string, RecentKey>();
  /** The hashes of the keys that were valid when the table was last read. */
  private listed = new Set<string>();
  private listingPause: Promise<unknown> = Promise.resolve();
  private readonly readListed = shareNext(async () => {
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
  private readonly unwrittenUses = new Map<number, number[]>();
  private writing: NodeJS.Timeout | undefined;

  constructor(@InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>) {}

  /**
   * Tells without a query whether a key is valid that was found so a moment ago; false where that
   * must be looked up. A revoked key stays valid for `RECHECK_AFTER` milliseconds at most, an
   * expired one not at all.
   */
  isRemembered(key: string): boolean {
    const now = Date.now();
    const recent = this.recent.get(key);
    if (recent === undefined || Math.abs(now - recent.checkedAt) >= RECHECK_AFTER) return false;
    return this.accept(recent.key, now);
  }

  /** Looks a key up, with one query, and tells whether it is valid now. A new key is valid at once. */
  async isValid(key: string): Promise<boolean> {
    const now = Date.now();
    const hash = hashOf(key);
    const record = await this.keys.findOneBy({ hash, revokedAt: IsNull() });
    const before = this.recent.get(key)?.key;
    this.recent.delete(key);
    if (record === null && before !== undefined) {
      this.logger.log(`API key ${before.id} (${before.name}) was revoked: it lets nobody in`);
    }
    if (record === null || !this.accept(record, now)) {
      this.listed.delete(hash);
      return false;
    }
    this.recent.set(key, { key: record, checkedAt: now });
    if (this.recent.size > REMEMBERED_KEYS) this.recent.delete(this.recent.keys().next().value!);
    return true;
  }

  /**
   * Tells as `isValid`, but costs a query of its own only where the key is valid, or was until
   * lately. For any number of unknown keys the table is read at most once in `LISTING_PAUSE`
   * milliseconds, all together; a key that was created before it is asked for is found.
   */
  async isListedAndValid(key: string): Promise<boolean> {
    const hash = hashOf(key);
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
  async ensure(key: string, name: string): Promise<void> {
    const record = await this.keys.findOneBy({ hash: hashOf(key) });
    if (record === null) {
      await this.insert(key, name, null).catch((error: unknown) => {
        // Another process that starts at the same moment was faster.
        if (!isRefusal(error)) throw error;
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
    clearTimeout(this.writing);
    await this.writeUses();
  }

  private async insert(key: string, name: string, expiresAt: Date | null): Promise<ApiKey> {
    const record = await this.keys.save({
      name,
      hash: hashOf(key),
      createdAt: new Date(),
      expiresAt,
    });
    this.logger.log(`Created API key ${record.id} (${name})`);
    return record;
  }

  private accept(record: ApiKey, now: number): boolean {
    if (record.expiresAt !== null && record.expiresAt.getTime() <= now) return false;
    if (now - (record.lastUsedAt?.getTime() ?? 0) >= MINUTE) {
      const minute = now - (now % MINUTE);
      record.lastUsedAt = new Date(minute);
      this.unwrittenUses.set(minute, [...(this.unwrittenUses.get(minute) ?? []), record.id]);
      this.writing ??= setTimeout(() => void this.writeUses(), LAST_USE_DELAY).unref();
    }
    return true;
  }

  /** A use that cannot be written is no reason to refuse it, nor to fail: it is logged. */
  private async writeUses(): Promise<void> {
    this.writing = undefined;
    const uses = [...this.unwrittenUses];
    this.unwrittenUses.clear();
    try {
      for (const [minute, ids] of uses) {
        await this.keys.update({ id: In(ids) }, { lastUsedAt: new Date(minute) });
      }
    } catch (error) {
      this.logger.warn('The last use of some API keys was not written', error);
    }
  }
}

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
