/** The body of a create request. */
export type NewCategory = {
  readonly name: string;
  readonly description?: string | null | undefined;
};

const description = 'Every second category has a description of this length.';
export const NEW_CATEGORY: NewCategory = { name: 'category created under load', description };

/** Returns the categories that are inserted before a load. */
export function createList(length: number): NewCategory[] {
  return Array.from({ length }, (_, index) => ({
    name: `category ${String(index + 1).padStart(6, '0')}`,
    description: index % 2 === 0 ? undefined : description,
  }));
}
