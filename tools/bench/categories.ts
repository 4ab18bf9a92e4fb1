/** The body of a create request. */
export type NewCategory = { name: string; description?: string | null | undefined };

const description = 'Every second category has a description of this length.';
export const NEW_CATEGORY: NewCategory = { name: 'category created under load', description };

/** Returns the categories that are inserted before a load. */
export function createList(length: number): (NewCategory & { id: number })[] {
  return Array.from({ length }, (_, index) => ({
    id: index + 1,
    name: `category ${String(index + 1).padStart(6, '0')}`,
    description: index % 2 === 0 ? undefined : description,
  }));
}
