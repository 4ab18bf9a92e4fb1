/** The database under test, set by the Jest project. */
declare const TEST_DATABASE: 'sqlite' | 'postgres';

export const DATABASE = TEST_DATABASE;
export const describeOnSqlite = DATABASE === 'sqlite' ? describe : describe.skip;
export const describeOnPostgres = DATABASE === 'postgres' ? describe : describe.skip;
/** The isolation levels that the service supports. */
export const ISOLATION_LEVELS =
  DATABASE === 'postgres' ? ['read committed', 'serializable'] : ['serializable'];
