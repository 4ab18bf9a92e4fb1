import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Makes and removes databases of one kind: a fresh one for every server that is measured. */
export interface Databases {
  /** Which database, and how durable it is, for the report. */
  readonly description: string;
  /**
   * Makes an empty database, or a copy of another one that no server uses at the moment.
   * @returns its URL, as the service's `DATABASE_URL` takes it
   */
  create(name: string, template?: string): Promise<string>;
  drop(name: string): Promise<void>;
  /**
   * The CPU time of the database's own processes so far, in microseconds; undefined where it has
   * none or the system does not tell.
   */
  readCpu(): number | undefined;
  stop(): Promise<void>;
}

/** SQLite files, each in a folder of its own in the given one. */
export function sqliteFiles(directory: string): Databases {
  const folder = (name: string): string => join(directory, name);
  return {
    description: 'SQLite with WAL and synchronous = FULL, but for "Fastify, NORMAL"',
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
