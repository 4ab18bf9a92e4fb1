import { Logger } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { Deadline, withDeadline } from './deadline.js';

/** Registers a task that starts once the transaction is committed; if the process ends before, it is lost. */
export type AfterCommit = (task: () => unknown) => void;

const logger = new Logger('Transaction');

/**
 * Runs a transaction, which is rolled back if it is not ready to commit by the deadline.
 *
 * @param work runs again if the transaction conflicts with another one
 * @throws {TransactionConflictError} if it still conflicts after two repetitions
 * @throws {DatabaseUnavailableError}
 */
export function runTransaction<Result>(
  dataSource: DataSource,
  work: (manager: EntityManager, afterCommit: AfterCommit) => Promise<Result>,
): Promise<Result> {
  const deadline = new Deadline();
  let tasks: (() => unknown)[] = [];
  const transaction = dataSource.transaction(async (manager) => {
    tasks = [];
    const result = await work(manager, (task) => tasks.push(task));
    deadline.beforeCommit();
    return result;
  });
  void transaction.then(
    () => tasks.forEach((task) => void runTask(task)),
    () => undefined,
  );
  return withDeadline(transaction, deadline);
}

async function runTask(task: () => unknown): Promise<void> {
  try {
    await task();
  } catch (error) {
    logger.error('A task after a commit failed', error);
  }
}
