import {
  applyDecorators,
  type DynamicModule,
  Module,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { MigrationInterface } from 'typeorm';
import type { Variables } from './config/environment-variables.js';
import { ERROR_CODE, type FeatureErrorCode } from './errors/error-codes.js';
import type { FeatureDocs, Tag } from './openapi/openapi-document.js';

/** What a feature declares besides an ordinary module. */
export interface FeatureMetadata {
  /** The tag of its operations in the OpenAPI document, or several. */
  readonly tag: Tag | readonly Tag[];
  /** The entities of the feature, which its services inject with `@InjectRepository`. */
  readonly entities?: readonly Type[];
  /** The migrations of the feature. All migrations run in the order of their timestamps. */
  readonly migrations?: readonly Type<MigrationInterface>[];
  /** The error codes that only its operations return. */
  readonly errorCodes?: readonly FeatureErrorCode[];
  /** The environment variables of the feature, by their property of `Config<typeof variables>`. */
  readonly variables?: Variables;
}

const FEATURE = 'platform:feature';

/**
 * Declares a feature: a module with its tag, entities, migrations, error codes and variables. src/features.ts lists the features.
 *
 * @throws {TypeError} if an error code is not in upper snake case
 */
export function Feature({
  tag,
  entities = [],
  migrations = [],
  errorCodes = [],
  variables = {},
  imports = [],
  ...module
}: FeatureMetadata & ModuleMetadata): ClassDecorator {
  const invalid = errorCodes.find(({ code }) => !ERROR_CODE.test(code));
  if (invalid !== undefined)
    throw new TypeError(
      `The error code ${invalid.code} is not in upper snake case, of up to 64 characters.`,
    );
  return applyDecorators(
    Module({ ...module, imports: [...imports, TypeOrmModule.forFeature([...entities])] }),
    (target: object) =>
      Reflect.defineMetadata(FEATURE, { tag, entities, migrations, errorCodes, variables }, target),
  );
}

/**
 * Returns the features that the root module of a service imports. A dynamic module, such as
 * `ScheduleModule.forRoot()`, is one of a library.
 */
export const getFeatures = (root: Type): Type[] =>
  (Reflect.getMetadata('imports', root) as (Type | DynamicModule)[]).filter(
    (module): module is Type => typeof module === 'function',
  );

/**
 * Returns what features declare for the OpenAPI document. A tag that several features declare has the description of the
 * first one.
 */
export function getDocs(features: readonly Type[]): FeatureDocs {
  const all = features.flatMap((feature) => getFeature(feature).tag);
  return {
    tags: all.filter(({ name }, index) => all.findIndex((tag) => tag.name === name) === index),
    errorCodes: features.flatMap((feature) => getFeature(feature).errorCodes),
  };
}

/** Returns the environment variables of each feature. */
export const getVariables = (features: readonly Type[]): Variables[] =>
  features.map((feature) => getFeature(feature).variables);

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
