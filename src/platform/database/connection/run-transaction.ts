import type { DataSource, EntityManager } from 'typeorm';
import { Deadline, withDeadline } from './deadline.js';

/**
 * Runs a transaction, which is rolled back if it is not ready to commit by the deadline.
 *
 * @param work runs again if the transaction conflicts with another one
 * @throws {TransactionConflictError} if it still conflicts after two repetitions
 * @throws {DatabaseUnavailableError}
 */
export function runTransaction<Result>(
  dataSource: DataSource,
  work: (manager: EntityManager) => Promise<Result>,
): Promise<Result> {
  const deadline = new Deadline();
  const transaction = dataSource.transaction(async (manager) => {
    const result = await work(manager);
    deadline.beforeCommit();
    return result;
  });
  return withDeadline(transaction, deadline);
}
