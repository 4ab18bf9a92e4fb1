/** The body of a create request. */
export type NewCategory = { readonly name: string; readonly description?: string | null };

const description = 'Every second category has a description of this length.';
export const NEW_CATEGORY: NewCategory = { name: 'category created under load', description };

/** Returns the categories that are seeded before a load: their ids are those of their rows. */
export function createList(length: number): (NewCategory & { id: number })[] {
  return Array.from({ length }, (_, index) => {
    const category = { id: index + 1, name: `category ${String(index + 1).padStart(6, '0')}` };
    return index % 2 === 0 ? category : { ...category, description };
  });
}
