/** Jest's global teardown for the PostgreSQL project. */
export default async function teardown(): Promise<void> {
  await globalThis.stopPostgres?.();
}
