/** Jest's global teardown of the PostgreSQL project. */
export default async function teardown(): Promise<void> {
  await globalThis.stopPostgres?.();
}
