import { createDatabase, startApp } from '../support/app.js';
import { MemoryLogger } from '../support/memory-logger.js';

describe('three instances that start simultaneously', () => {
  it('have migrated the empty database exactly once', async () => {
    const logger = new MemoryLogger();
    const database = await createDatabase();
    const instances = await Promise.all([1, 2, 3].map(() => startApp({ database, logger })));
    const rows = await instances[0]!.dataSource.query<{ name: string }[]>(
      'SELECT "name" FROM "migrations"',
    );
    const names = rows.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    expect(names.length).toBeGreaterThan(0);
    const text = logger.text.match(/Applied migration \w+/g)!;
    expect(text.toSorted()).toEqual(names.map((name) => `Applied migration ${name}`).toSorted());
    await Promise.all(instances.map((instance) => instance.stop()));
    await database.drop();
  });
});
