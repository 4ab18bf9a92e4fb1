import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Creates and drops the databases of one engine; every measurement uses a new one. */
export interface DatabaseBackend {
  /** Engine, version and durability settings, for the report. */
  readonly description: string;
  /**
   * Creates a database, either empty or as a copy of a template that is not in use.
   * @returns the URL of the database, as accepted by `DATABASE_URL`
   */
  create(name: string, template?: string): Promise<string>;
  drop(name: string): Promise<void>;
  /**
   * Reads the total CPU time of the database processes in microseconds; undefined if there are none, or
   * on systems other than Linux.
   */
  readCpu(): number | undefined;
  stop(): Promise<void>;
}

/** Creates SQLite databases, each in its own subfolder of the given directory. */
export function createSqliteBackend(directory: string): DatabaseBackend {
  const folder = (name: string): string => join(directory, name);
  return {
    description: 'SQLite with WAL and synchronous = FULL',
    create: async (name, template) => {
      if (template === undefined) mkdirSync(folder(name));
      else cpSync(folder(template), folder(name), { recursive: true });
      return `sqlite:${join(folder(name), 'categories.sqlite')}`;
    },
    drop: async (name) => rmSync(folder(name), { recursive: true, force: true }),
    readCpu: () => undefined,
    stop: async () => undefined,
  };
}
