/** How the SQL of a database differs from that of the other. */
export interface Dialect {
  /** The type of an id that the database assigns, which has 64 bits. */
  readonly generatedIdType: 'bigint' | 'integer';
  /** The collation that compares texts by their bytes, unless that is the default. */
  readonly binaryCollation: string | undefined;
  /** The cast of a placeholder whose integer may be too large for its column. */
  readonly bigintCast: string;
  /**
   * A condition that is true on a primary, and fails on a server in recovery, whose rows may be outdated. PostgreSQL
   * evaluates a subquery without FROM once, also if a table is empty.
   */
  readonly isPrimary: string;
  /**
   * An expression for a SELECT of rows that a client may see only once the synchronous standbys have them, too: if there is
   * such a row, the commit waits for the standbys. After a restart of PostgreSQL, rows are visible earlier.
   */
  readonly awaitsStandbys: string;
  /** The clause of a SELECT that locks its rows until the transaction ends. On SQLite, a transaction excludes others. */
  readonly rowLock: string;
  /** An expression for the clock of the database, in milliseconds since 1970 UTC; undefined if it is that of this process. */
  readonly clock: string | undefined;
  /**
   * Returns a statement that inserts rows outside of a transaction, all or none, for one that returns their ids. Undefined
   * if only a transaction does so.
   */
  readonly toCompleteInsert: ((insert: string, count: number) => string) | undefined;
  /** An expression for the RETURNING of the first statement of a transaction, which then fails if the transaction does not begin. */
  readonly inTransaction: string;
  /** A statement after which deferred constraints are checked at each statement; undefined if there is none. */
  readonly checkImmediately: string | undefined;
  /** Whether triggers keep the revision of each table in the table `revisions`; otherwise the file has one revision. */
  readonly hasRevisionTable: boolean;
}
