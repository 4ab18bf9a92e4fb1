import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, IsNull, Raw, Repository } from 'typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { Deadline, withDeadline } from '../database/connection/deadline.js';
import { DatabaseUnavailableError } from '../database/connection/driver-errors.js';
import { getDialect } from '../database/connection/service-data-source.js';
import { toClient } from './client-address.js';
import { FailureLog } from './failure-log.js';
import { ApiKey } from './keys/api-key.entity.js';
import { expiresBefore } from './keys/api-keys.service.js';
import { hashKey, isMistyped } from '../config/key-format.js';
import { requestContext } from '../logging/logger.js';
import { RateLimiter } from './rate-limiter.js';

/** How long a valid key is cached, in milliseconds: a revocation takes effect within this time. */
const CACHE_TTL_MS = 2_000;
const CACHE_SIZE = 10_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long before its expiry the use of a key is logged, in milliseconds. */
const EXPIRY_WARNING_MS = 7 * DAY_MS;

/** The delay between two writes of last uses, and how long the shutdown waits for the last one, in milliseconds. */
const LAST_USE_DELAY_MS = 1_000;
/** The largest number of last uses that one statement writes, in about 5 ms. */
const MAX_LAST_USES = 1_000;

/** The limit of failures of all clients together, as a multiple of the limit of one client. It also bounds the memory. */
const GLOBAL_LIMIT_FACTOR = 20;
const TOO_MANY_FAILURES = 'Too many failed authentication attempts.';

/** A look-up in progress, and the deadline of the last request that waits for it. */
interface LookUp {
  deadline: Deadline;
  result?: Promise<ApiKey | undefined>;
}

/** Verifies API keys, and records their use. */
@Injectable()
export class ApiKeyVerifier implements OnApplicationShutdown {
  private readonly logger = new Logger(ApiKeyVerifier.name);
  /** Recently used valid keys, by the key itself: a request with one needs neither a hash (3 µs) nor a query. */
  private readonly cache = new Map<string, { record: ApiKey; checkedAt: number }>();
  /** The look-ups in progress, by client and key: concurrent requests share a look-up, which is one attempt. */
  private readonly lookUps = new Map<string, LookUp>();
  readonly failureLog = new FailureLog();
  readonly failures = new RateLimiter('auth-failures');
  readonly allFailures = new RateLimiter('auth-failures-global');
  /** The last uses that are not written yet, by the id of the key, and the task that writes them. */
  private readonly lastUses = new Map<number, Date>();
  private lastUseWriter: Promise<void> | undefined;
  private readonly shutdown = new AbortController();
  /** When the expiry of a key was last logged, by its id. */
  private readonly expiryWarnings = new Map<number, number>();

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    @InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>,
  ) {}

  /**
   * Returns the record of a key, without a promise if it was checked in the last 2 seconds; undefined if the key is not
   * valid. A new key is valid immediately.
   *
   * @param key empty if it is malformed
   * @param request its address is only computed (2 µs) for a key that is not cached
   * @throws {ApiError} TOO_MANY_REQUESTS after too many failed attempts of the client; SERVICE_UNAVAILABLE
   */
  verify(
    key: string,
    request: { readonly ip?: string | undefined },
  ): ApiKey | Promise<ApiKey | undefined> {
    const cached = this.cache.get(key);
    const isFresh = cached !== undefined && performance.now() - cached.checkedAt < CACHE_TTL_MS;
    if (isFresh && this.recordUseUnlessExpired(cached.record, Date.now())) return cached.record;
    const deadline = new Deadline();
    const client = toClient(request.ip);
    const id = `${client} ${key}`;
    const lookUp: LookUp = this.lookUps.get(id) ?? { deadline };
    this.lookUps.set(id, lookUp);
    lookUp.deadline = deadline;
    lookUp.result ??= this.limitFailures(client, key, async () => {
      // A look-up that the limit has delayed is not needed once the deadline of its last request has passed.
      if (lookUp.deadline.remaining === 0) throw lookUp.deadline.expire();
      const record = await this.findValid(key);
      if (record === undefined) this.failureLog.add(client);
      return record;
    }).finally(() => this.lookUps.delete(id));
    return withDeadline(lookUp.result, deadline);
  }

  /** Returns the number of keys in recent use that expire within a week. */
  countExpiring(): number {
    const now = Date.now();
    return [...this.cache.values()].filter(
      ({ record }) => !expiresBefore(record, now) && expiresBefore(record, now + EXPIRY_WARNING_MS),
    ).length;
  }

  /** Runs after the server has drained, so that the uses of keys by the last requests are written, too. */
  async onApplicationShutdown(): Promise<void> {
    this.shutdown.abort();
    await Promise.race([this.lastUseWriter, delay(LAST_USE_DELAY_MS)]);
  }

  private async limitFailures<T>(
    client: string,
    key: string,
    run: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const limit = this.config.authFailuresPerMinute;
    // A key that was valid before is exempt: other clients at its address may exceed the limit.
    if (limit === 0 || this.cache.has(key)) return run();
    // The client's limit comes first, so that one client cannot exhaust the limit of all clients.
    return this.failures.attempt(client, limit, TOO_MANY_FAILURES, () =>
      this.allFailures.attempt('all', limit * GLOBAL_LIMIT_FACTOR, TOO_MANY_FAILURES, run),
    );
  }

  private async findValid(key: string): Promise<ApiKey | undefined> {
    // Neither malformed nor mistyped keys can exist, so they need no query.
    if (key === '' || isMistyped(key, this.config.product.keyPrefixes)) return undefined;
    const now = Date.now();
    const checkedAt = performance.now();
    const { isPrimary } = getDialect(this.keys.manager.dataSource);
    const hash = Raw((column) => `${column} = :hash AND ${isPrimary}`, { hash: hashKey(key) });
    const record = await this.keys.findOneBy({ hash, revokedAt: IsNull() });
    const cached = this.cache.get(key)?.record;
    this.cache.delete(key);
    if (record === null && cached !== undefined)
      this.logger.log(`API key ${cached.id} (${cached.name}) is revoked, rejecting request`);
    if (record === null || !this.recordUseUnlessExpired(record, now)) return undefined;
    this.warnOfExpiry(record, now);
    this.cache.set(key, { record, checkedAt });
    if (this.cache.size > CACHE_SIZE) this.cache.delete(this.cache.keys().next().value!);
    return record;
  }

  /** Logs once a day that a key that is in use expires soon. */
  private warnOfExpiry(record: ApiKey, now: number): void {
    const sinceWarning = performance.now() - (this.expiryWarnings.get(record.id) ?? -Infinity);
    if (!expiresBefore(record, now + EXPIRY_WARNING_MS) || sinceWarning < DAY_MS) return;
    this.expiryWarnings.set(record.id, performance.now());
    const advice =
      record.successorId === null
        ? `Replace it with: node dist/cli/keys.js rotate ${record.id} --overlap 7d`
        : `Its client must change to API key ${record.successorId}`;
    this.logger.warn(
      `API key ${record.id} (${record.name}) is in use and expires at ${record.expiresAt!.toISOString()}. ${advice}`,
    );
  }

  /**
   * Records the use of a key, and returns true, unless it has expired. A use is recorded at most once an hour, unless the
   * clock was ahead, because on SQLite every write invalidates the cached lists.
   */
  private recordUseUnlessExpired(record: ApiKey, now: number): boolean {
    if (expiresBefore(record, now)) return false;
    const sinceLastUse = now - (record.lastUsedAt?.getTime() ?? 0);
    if (sinceLastUse < 0 || sinceLastUse >= HOUR_MS) {
      record.lastUsedAt = new Date(now);
      this.lastUses.set(record.id, record.lastUsedAt);
      // The writer belongs to no request: its warnings have no request id.
      this.lastUseWriter ??= requestContext
        .run(undefined, () => this.writeLastUses())
        .finally(() => (this.lastUseWriter = undefined));
    }
    return true;
  }

  /** Writes the last uses of keys, many with one statement: a commit for each would delay the commits of requests. */
  private async writeLastUses(): Promise<void> {
    const { signal } = this.shutdown;
    while (this.lastUses.size > 0) {
      const uses = [...this.lastUses].slice(0, MAX_LAST_USES);
      const ids = uses.map(([id]) => id);
      for (const id of ids) this.lastUses.delete(id);
      try {
        // The uses that one statement writes are at most some seconds apart.
        await this.keys.update({ id: In(ids) }, { lastUsedAt: uses.at(-1)![1] });
      } catch (error) {
        // A failure is only logged: it must not affect requests.
        if (!(error instanceof DatabaseUnavailableError))
          this.logger.warn('Failed to write the last use of API keys', error);
      }
      await delay(LAST_USE_DELAY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}
