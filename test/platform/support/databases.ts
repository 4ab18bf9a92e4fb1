/** The database under test, set by the Jest project. */
declare const TEST_DATABASE: 'sqlite' | 'postgres';

export const DATABASE = TEST_DATABASE;
/** Describes nothing: the tests run in the project of the other database. */
const omit = Object.assign(() => undefined, { each: () => () => undefined }) as unknown;
export const describeOnSqlite = DATABASE === 'sqlite' ? describe : (omit as jest.Describe);
export const describeOnPostgres = DATABASE === 'postgres' ? describe : (omit as jest.Describe);
