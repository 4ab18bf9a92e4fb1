/** Finds out how a list is sorted: by a column that an enum of a parameter names. */
import type { ListPaging, Order, Property, Resource, Schema } from '../model.js';
import { toBareName } from '../names.js';
import { findColumn, isUnlimitedText } from './columns.js';

const SORT = /^(sort(by|field|key|column)?|order(by|ing)?)$/;
const DIRECTION = /^(sort|order|(sort|order)?dir(ection)?|sortorder)$/;
const DIRECTIONS = /^(asc|desc)(ending)?$/i;

/** A value such as `-name`, `name:desc` or `nameDesc`. */
const DIRECTED = /^(?:([-+])(.+)|(.+?)[ _:.,-]?(asc|desc)(?:ending)?)$/i;

/** Returns the order of a list, if the contract names all of its values, and its pages have numbers or offsets. */
export function toOrder(
  query: readonly Property[],
  resource: Resource,
  { by }: ListPaging,
): Order | undefined {
  if (by?.role !== 'page' && by?.role !== 'offset') return undefined;
  for (const parameter of query) {
    const { name, type, enum: values = [] } = parameter;
    if (!SORT.test(toBareName(name)) || type !== 'string') continue;
    const columns = values.map((value) => toSorted(String(value), resource));
    if (columns.length === 0 || !columns.every((each) => each !== undefined)) continue;
    const direction = columns.some(({ isDirected }) => isDirected)
      ? undefined
      : query.find((each) => each !== parameter && isDirection(each));
    const isDescending = ([, { isDescending: descends }]: [unknown, Sorted]): boolean => descends;
    const entries = columns.map((each, index) => [String(values[index]), each] as [string, Sorted]);
    return {
      parameter: name,
      columns: Object.fromEntries(entries.map(([value, { property }]) => [value, property])),
      direction: direction?.name ?? name,
      descending:
        direction === undefined
          ? entries.filter(isDescending).map(([value]) => value)
          : direction.enum!.map(String).filter((value) => /^desc/i.test(value)),
    };
  }
  return undefined;
}

interface Sorted {
  readonly property: string;
  readonly isDescending: boolean;
  readonly isDirected: boolean;
}

function toSorted(value: string, resource: Resource): Sorted | undefined {
  const own = /^[-+]/.test(value) ? undefined : findProperty(value, resource);
  if (own !== undefined) return { property: own, isDescending: false, isDirected: false };
  const [, sign = '', signed, named, word = ''] = DIRECTED.exec(value) ?? [];
  const property = findProperty(signed ?? named ?? '', resource);
  const isDescending = sign === '-' || /^desc/i.test(word);
  return property === undefined ? undefined : { property, isDescending, isDirected: true };
}

/** The property of the entity that clients see, and whose values both databases sort in the same way. */
function findProperty(name: string, resource: Resource): string | undefined {
  if (name === '') return undefined;
  if (name === resource.id.property) return 'id';
  const column = findColumn(resource, name);
  const isShown = column !== undefined && column.hidden !== true && column.hashed !== true;
  return isShown && isSortable(column.schema) ? column.property : undefined;
}

const isSortable = (schema: Schema): boolean =>
  schema.type === 'string'
    ? !isUnlimitedText(schema)
    : ['integer', 'number', 'boolean'].includes(schema.type!);

const isDirection = ({ name, type, enum: values = [] }: Property): boolean =>
  DIRECTION.test(toBareName(name)) &&
  type === 'string' &&
  values.length > 0 &&
  values.every((value) => DIRECTIONS.test(String(value)));
