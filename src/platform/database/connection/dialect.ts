/** How the SQL of a database differs from that of the other. */
export interface Dialect {
  /** The type of an id that the database assigns, which has 64 bits. */
  readonly generatedIdType: 'bigint' | 'integer';
  /** The collation that compares texts by their bytes, unless that is the default. */
  readonly binaryCollation: string | undefined;
  /** What follows the placeholder of an integer that may be too large for its column. */
  readonly bigintCast: string;
  /**
   * A condition that is true on a primary, and fails on a server in recovery: what that has may be outdated. Without FROM
   * in a subquery, PostgreSQL evaluates it once, also if a table is empty.
   */
  readonly isPrimary: string;
  /**
   * An expression for a SELECT whose rows are sent to a client: if it returns any, its transaction commits only once the
   * synchronous standbys have what they were read from. A row may be visible before, after a restart of PostgreSQL.
   */
  readonly awaitsStandbys: string;
  /** What follows a SELECT to lock its rows until the transaction ends. On SQLite, a transaction excludes others anyway. */
  readonly rowLock: string;
  /** A statement that locks a text and a number until the transaction ends, unless a transaction excludes others anyway. */
  readonly keyLock: string | undefined;
  /** The clock of the database, in milliseconds since 1970 UTC, unless it is that of this process. */
  readonly clock: string | undefined;
  /**
   * Returns a statement that inserts rows, all or none, outside of a transaction, and returns the array `ids`. Undefined if
   * only a transaction does so.
   */
  readonly toCompleteInsert: ((insert: string, count: number) => string) | undefined;
  /** A statement after which the constraints of a transaction are checked at each statement, unless there is none. */
  readonly checkImmediately: string | undefined;
  /** Whether triggers keep the revision of each table in the table `revisions`; otherwise the file has one revision. */
  readonly hasRevisionTable: boolean;
}
