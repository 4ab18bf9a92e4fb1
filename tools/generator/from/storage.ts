/** Reads and writes the file in which a team decides how the properties of a contract are stored. */
import type { Tree } from '@angular-devkit/schematics';
import { isMap, parseDocument } from 'yaml';
import { ContractError } from '../../openapi/contract.js';

/** How a property is stored, if the contract does not determine that. */
export type Storage =
  | { readonly kind: 'column' | 'unique' | 'now' | 'undecided' }
  | { readonly kind: 'references'; readonly table: string };

const UNDECIDED = '?';

/**
 * The decisions about a module, in `<module>.storage.yaml`: a map of schemas, each a map of properties. The
 * generator adds the properties that it cannot decide as `?`, and changes nothing else.
 */
export class StorageFile {
  /** Of the file. */
  readonly path: string;
  private readonly document;
  private readonly added: string[] = [];

  /** @throws {ContractError} if the file contains something else */
  constructor(
    private readonly tree: Tree,
    module: string,
    contract: string,
  ) {
    this.path = `/src/modules/${module}/${module}.storage.yaml`;
    const initial = `# How properties of ${contract} are stored: column, unique, references <table>, or now.\n`;
    const text = tree.exists(this.path) ? tree.readText(this.path) : initial;
    this.document = parseDocument(text);
    const [error] = this.document.errors;
    if (error !== undefined) throw this.createError('', error.message.split('\n', 1)[0]!);
    if (this.document.contents !== null && !isMap(this.document.contents))
      throw this.createError('', 'expected the names of schemas');
    for (const [schema, properties] of Object.entries((this.document.toJS() ?? {}) as object)) {
      if (typeof properties !== 'object' || properties === null)
        throw this.createError(`/${schema}`, 'expected the names of properties');
    }
  }

  /** Returns the decision about a property, if there is one. */
  get(schema: string, property: string): Storage | undefined {
    const value: unknown = this.document.getIn([schema, property]);
    if (value === undefined) return undefined;
    const [, table] =
      /^references ([a-z][a-z0-9_]*)$/.exec(typeof value === 'string' ? value : '') ?? [];
    if (table !== undefined) return { kind: 'references', table };
    if (value === UNDECIDED) return { kind: 'undecided' };
    if (value === 'column' || value === 'unique' || value === 'now') return { kind: value };
    throw this.createError(
      `/${schema}/${property}`,
      'expected column, unique, references <table>, or now',
    );
  }

  /** Asks for a decision about a property. */
  ask(schema: string, property: string): void {
    if (this.document.hasIn([schema, property])) return;
    this.document.setIn([schema, property], UNDECIDED);
    this.added.push(property);
  }

  /** @throws {ContractError} if a decision is about a property that no resource has */
  checkUsed(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    const decisions = (this.document.toJS() ?? {}) as Record<string, object>;
    for (const [schema, properties] of Object.entries(decisions)) {
      const unknown = Object.keys(properties).find((name) => !resources.get(schema)?.has(name));
      if (unknown !== undefined)
        throw this.createError(`/${schema}/${unknown}`, 'no resource of the contract has it');
    }
  }

  /** Writes the properties that were asked for. */
  save(): void {
    if (this.added.length === 0) return;
    const text = this.document.toString({ singleQuote: true });
    if (this.tree.exists(this.path)) this.tree.overwrite(this.path, text);
    else this.tree.create(this.path, text);
  }

  private createError(pointer: string, reason: string): ContractError {
    return new ContractError([
      `${this.path.slice(1)}#${pointer === '' ? '/' : pointer}: ${reason}.`,
    ]);
  }
}
