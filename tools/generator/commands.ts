/** Makes the commands with which a client creates resources. */
import {
  getParent,
  getReferenced,
  getUnchecked,
  type Module,
  type Resource,
  type ResourceId,
} from './model.js';
import { toKebabCase } from './names.js';
import { ContractError } from './read/document.js';
import { getCreate, toRow } from './write/samples.js';

/** The values of owners that nothing creates. */
const OWNER_IDS: Readonly<Record<ResourceId['kind'], number | string>> = {
  integer: 1,
  uuid: 'b1f1cbe4-2d9a-4c39-8f3b-7a53f2e60c11',
  text: 'a',
};

/** A request that creates a row. */
interface Request {
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The values of the parameters in its path. */
  readonly above: readonly unknown[];
  /** The id, if the client chooses it. */
  readonly id: unknown;
}

/**
 * Returns a `curl` command for each resource, which creates one. What it refers to is created before.
 *
 * @param service the URL of a service without rows
 * @throws {ContractError} if a row that another one refers to cannot be created
 */
export async function toCommands(module: Module, service: string, key: string): Promise<string[]> {
  const { resources, prefix } = module;
  const url = prefix === '' ? `${service}/v1` : service;
  const authorization = `Bearer ${key}`;
  /** The first row of each table that others refer to: the values of the parameters in its path, and its id. */
  const rows = new Map<string, readonly unknown[]>();

  const toRequest = (resource: Resource, seed: number): Request => {
    const { create, owners, id } = resource;
    const unchecked = getUnchecked(owners).map(({ kind }) => OWNER_IDS[kind]);
    const above = [...(rows.get(getParent(owners)?.resource.table ?? '') ?? []), ...unchecked];
    const values = above.map((value) => encodeURIComponent(String(value)));
    const row = toRow(resource, seed, (table) => rows.get(table)?.at(-1));
    const { property } = getCreate(module, resource).sent;
    const body = property === undefined ? row : { [property]: row };
    const isForm = create.body?.isForm === true;
    const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
    return {
      target: url + create.path.replaceAll(/\{[^}]+\}/g, () => values.shift()!),
      headers: { authorization, 'content-type': type },
      body: isForm ? toForm(body) : JSON.stringify(body),
      above,
      id: id.by === 'client' ? row[id.property!] : undefined,
    };
  };

  const insert = async (resource: Resource): Promise<void> => {
    const { above, id, target, ...request } = toRequest(resource, 1);
    const created = await fetch(target, { method: 'POST', ...request });
    const text = await created.text();
    if (!created.ok)
      throw new ContractError([`POST ${target} returned ${created.status}: ${text.slice(0, 300)}`]);
    const { property = 'id' } = resource.id;
    // A response without the id is followed by the list, which has it.
    const list = await fetch(target, { headers: { authorization } });
    const found =
      id ??
      findProperty(JSON.parse(text || '{}'), property) ??
      findProperty(await list.json(), property);
    rows.set(resource.table, [...above, found]);
  };

  /** Creates a row of another module, if it needs no more than a name: a category. */
  const insertNamed = async (table: string): Promise<void> => {
    const headers = { authorization, 'content-type': 'application/json' };
    const created = await fetch(`${service}/v1/${toKebabCase(table)}`, {
      method: 'POST',
      headers,
      body: '{"name":"text"}',
    });
    if (created.ok) rows.set(table, [findProperty(await created.json(), 'id')]);
  };

  const commands: string[] = [];
  // Each comes after those that it refers to.
  for (const resource of resources) {
    for (const table of resource.columns.flatMap((each) => getReferenced(each) ?? [])) {
      if (table === resource.table || rows.has(table)) continue;
      const other = resources.find((each) => each.table === table);
      await (other === undefined ? insertNamed(table) : insert(other));
    }
    const { target, headers, body } = toRequest(resource, 2);
    const options = Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`);
    const quoted = body.replaceAll("'", String.raw`'\''`);
    commands.push(`curl ${options.join(' ')} \\\n  -d '${quoted}' \\\n  '${target}'`);
  }
  return commands;
}

/** Encodes a body as a form: arrays repeat their name, and objects are JSON. */
function toForm(body: Readonly<Record<string, unknown>>): string {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(body))
    for (const item of [value].flat())
      form.append(name, typeof item === 'string' ? item : JSON.stringify(item));
  return form.toString();
}

/** Returns the value of a property of an object, or of one that it contains. */
function findProperty(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const { [name]: own, ...others } = value as Record<string, unknown>;
  return (
    own ??
    Object.values(others)
      .map((each) => findProperty(each, name))
      .find((each) => each !== undefined)
  );
}
