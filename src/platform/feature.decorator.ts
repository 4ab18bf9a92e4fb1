import { applyDecorators, Module, type ModuleMetadata, type Type } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { MigrationInterface } from 'typeorm';
import type { Tag } from './openapi/openapi-document.js';

/** What a feature declares besides an ordinary module. */
export interface FeatureMetadata {
  /** The tag of its operations in the OpenAPI document, or several. */
  readonly tag: Tag | readonly Tag[];
  /** Its entities, which its services inject with `@InjectRepository`. */
  readonly entities?: readonly Type[];
  /** Its migrations. All migrations run in the order of their timestamps. */
  readonly migrations?: readonly Type<MigrationInterface>[];
}

const FEATURE = 'petstore:feature';

/** Declares a feature: a module with its tag, entities and migrations. src/features.ts lists the features. */
export function Feature({
  tag,
  entities = [],
  migrations = [],
  imports = [],
  ...module
}: FeatureMetadata & ModuleMetadata): ClassDecorator {
  return applyDecorators(
    Module({ ...module, imports: [...imports, TypeOrmModule.forFeature([...entities])] }),
    (target: object) => Reflect.defineMetadata(FEATURE, { tag, entities, migrations }, target),
  );
}

/** Returns the tags of features. A tag that several features declare has the description of the first one. */
export function getTags(features: readonly Type[]): Tag[] {
  const tags = features.flatMap((feature) => getFeature(feature).tag);
  return tags.filter(({ name }, index) => tags.findIndex((tag) => tag.name === name) === index);
}

/**
 * Returns what a feature declares.
 *
 * @throws {TypeError} if the class has no `@Feature` decorator
 */
export function getFeature(module: Type): Required<FeatureMetadata> {
  const feature = Reflect.getMetadata(FEATURE, module) as Required<FeatureMetadata> | undefined;
  if (feature === undefined) throw new TypeError(`${module.name} must be declared with @Feature`);
  return feature;
}
