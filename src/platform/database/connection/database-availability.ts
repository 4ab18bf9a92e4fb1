import { statSync } from 'node:fs';
import { requestContext } from '../../logging/logger.js';
import { isPostgres } from './is-postgres.js';
import { withDeadline } from './deadline.js';
import { DatabaseUnavailableError } from './driver-errors.js';
import { CHECK_INTERVAL_MS, OutageLog } from './outage-log.js';
import { ServiceDataSource } from './service-data-source.js';

const FILE_MOVED = new Error(
  'A file of the open database was moved or deleted: stop the service with SIGTERM, which saves the rows of a deleted WAL',
);

/**
 * Checks whether the database can be written, for `/readyz` and after a failed statement, at most once per second. It is
 * checked every second until nothing has failed for five.
 */
export class DatabaseAvailability {
  /** The check in progress, or of the last second. */
  private check: Promise<void> | undefined;
  private inodes = '';
  private readonly log = new OutageLog();

  /** @param shutdown aborted when the application shuts down */
  constructor(
    private readonly dataSource: ServiceDataSource,
    private readonly shutdown: AbortSignal,
  ) {}

  /** Begins to watch statements. Call it once the database can be used. */
  start(): void {
    this.inodes = getInodes(this.dataSource);
    this.dataSource.onError((error) => {
      if (!(error instanceof DatabaseUnavailableError)) return;
      this.log.recordFailure(error);
      // Otherwise there is a check once the last one has expired.
      if (this.check === undefined) this.expire();
    });
  }

  /** @throws {DatabaseUnavailableError} if the database could not be written when it was last checked */
  requireWritable(): Promise<void> {
    return (this.check ??= requestContext.run(undefined, () => this.runCheck()));
  }

  /** Ends the validity of the last check, and checks again if something is wrong. */
  private expire(): void {
    this.check = undefined;
    if (this.log.isOutage && !this.shutdown.aborted) this.requireWritable().catch(() => undefined);
  }

  private async runCheck(): Promise<void> {
    try {
      if (getInodes(this.dataSource) !== this.inodes)
        throw new DatabaseUnavailableError(FILE_MOVED);
      await withDeadline(requireWritable(this.dataSource, this.log.isFailing));
      this.log.recordSuccess();
    } catch (error) {
      this.log.recordFailure(error as DatabaseUnavailableError, true);
      // The client of a check does not ask whether it had an effect.
      throw new DatabaseUnavailableError(error);
    } finally {
      setTimeout(() => this.expire(), CHECK_INTERVAL_MS).unref();
    }
  }
}

/** Returns the inodes of the files of a SQLite database, which continues to write to deleted ones without an error. */
function getInodes({ options }: ServiceDataSource): string {
  if (options.type !== 'better-sqlite3') return '';
  const files = ['', '-wal', '-shm'].map((suffix) => options.database + suffix);
  return files.map((file) => statSync(file, { throwIfNoEntry: false })?.ino).join(' ');
}

/**
 * Checks that the database can be written: a read-only one rejects an UPDATE, even of no row.
 *
 * @param isThorough whether SQLite reads and writes the file, which shows that it is intact and the disk not full. It
 *   also makes every list cache read its table again.
 * @throws {DatabaseUnavailableError}
 */
export async function requireWritable(
  dataSource: ServiceDataSource,
  isThorough = false,
): Promise<void> {
  const table = isPostgres(dataSource) ? 'revisions' : 'migrations';
  const writesFile = isThorough && !isPostgres(dataSource);
  const rows = writesFile ? '"id" = 1' : 'FALSE';
  await dataSource.query(`UPDATE "${table}" SET "name" = "name" WHERE ${rows}`);
  // A number for applications. SQLite does not write a row that stays the same.
  if (writesFile) await dataSource.query(`PRAGMA user_version = ${Math.floor(performance.now())}`);
}
