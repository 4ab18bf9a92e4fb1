import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  apply,
  applyTemplates,
  chain,
  forEach,
  mergeWith,
  move,
  type Rule,
  SchematicsException,
  strings,
  type Tree,
  url,
} from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import { aliasImports, findCollisions, renameVariables } from './collisions.js';
import { type Field, parseFields } from './fields.js';
import {
  FEATURES_PATH,
  getRecordPath,
  readFile,
  type Record as GenerationRecord,
} from './record.js';
import {
  addElement,
  addImport,
  formatSource,
  organizeImports,
  parseControllers,
  type ParsedOperation,
  removeElement,
  removeOperations,
} from './source.js';

/** The options of schema.json. */
interface Options {
  readonly name: string;
  readonly fields: string;
  readonly operations: string;
  readonly singular?: string;
  readonly pages?: boolean;
  readonly ifMatch?: boolean;
  readonly format?: boolean;
}

const OPERATIONS = ['list', 'create', 'read', 'replace', 'update', 'delete'] as const;
export type Operation = (typeof OPERATIONS)[number];
/** The operations that are generated. */
export type Operations = Readonly<Record<Operation, boolean>>;

const METHODS: Record<Operation, string> = {
  list: 'GET',
  create: 'POST',
  read: 'GET',
  replace: 'PUT',
  update: 'PATCH',
  delete: 'DELETE',
};

/** In the docstring of the service. */
const VERBS: Record<Operation, string> = {
  list: 'lists',
  create: 'creates',
  read: 'reads',
  replace: 'replaces',
  update: 'updates',
  delete: 'deletes',
};

/** Names whose tables, or whose schema in the OpenAPI document, the platform has. */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  'api-keys',
  'errors',
  'migrations',
  'revisions',
]);

/** Relative to build/tools/generator/resource, the folder of the compiled file. */
const TEMPLATES = '../../../../tools/generator/resource/files';
const SEGMENT = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const MAX_NAME_LENGTH = 40;
const CONTROLLER = '.controller.ts';
/** The description of a tag whose operations are stubs. */
const STUB_TAG_DESCRIPTION = 'Placeholders: always 501 for now';

/** The names of a resource, in all forms that the templates need. */
export type Names = ReturnType<typeof createNames>;

/**
 * Generates a resource with migration and tests, and registers it. A stub operation at the same path,
 * which returns 501, is replaced; its `@Deprecated` and `@Stability` decorators are kept.
 */
export function resource(options: Options): Rule {
  return (tree) => {
    const templates = readTemplates();
    const names = renameVariables(createNames(options), templates);
    const has = parseOperations(options.operations);
    const fields = parseFields(options.fields, names.table, names.Item);
    const filters = fields.filter(({ filter }) => filter);
    const pages = options.pages === true;
    const ifMatch = options.ifMatch === true;
    const writables = fields.filter(({ readOnly }) => !readOnly);
    const merged = has.update ? writables.filter(({ isMerged }) => isMerged) : [];
    checkOperations(fields, has, ifMatch);
    const versioned = ifMatch || merged.length > 0;
    if (versioned && fields.some(({ name }) => name === 'version')) {
      const reason = ifMatch ? '--if-match' : `The update of ${merged[0]!.name}`;
      throw new SchematicsException(`${reason} needs a column version: rename the field.`);
    }
    if (pages && !has.list) throw new SchematicsException('--pages needs the operation list.');
    if (filters.length > 0 && !pages)
      throw new SchematicsException(`The filter ${filters[0]!.name} needs --pages.`);
    for (const { name, references } of fields) {
      if (references !== names.table) checkReference(tree, name, references);
    }
    const timestamp = nextTimestamp(tree);
    const { folderPath, name, itemName } = names;
    const isNewFolder = !tree.exists(names.modulePath);
    const createdFiles = [
      `${folderPath}/${itemName}.entity.ts`,
      `${folderPath}/${itemName}.dto.ts`,
      `${folderPath}/${name}.service.ts`,
      `${folderPath}/migrations/${timestamp}-create-${name}.ts`,
      `/test/${name}.databases.test.ts`,
      ...(isNewFolder ? [names.modulePath] : []),
    ];
    const existing = createdFiles.find((path) => tree.exists(path));
    if (existing !== undefined) throw alreadyExists(existing);
    checkNames(tree, names, fields, templates);
    checkRoutes(tree, names, has);
    const before = tree.branch();
    const stubs = replaceStubs(tree, names, has);
    createdFiles.push(`${folderPath}/${name}${CONTROLLER}`);
    const migration = `Create${names.Items}${timestamp}`;
    const values = {
      ...createTemplateValues(names, fields, has, {
        pages,
        hasWholeList: has.list && !pages,
        ifMatch,
      }),
      ...stubs,
      migration,
      timestamp,
    };
    return chain([
      mergeWith(
        apply(url(TEMPLATES), [
          forEach(({ path, content }) => ({
            path,
            content: Buffer.from(aliasImports(content.toString(), names)),
          })),
          applyTemplates(values),
          (files) => moveTemplates(files, names, isNewFolder),
          move('/'),
        ]),
      ),
      (target) => {
        if (isNewFolder) registerFeature(target, names);
        else extendModule(target, names, migration, timestamp);
      },
      (target) => (options.format === false ? undefined : formatFiles(target, createdFiles)),
      (target) => writeRecord(before, target, names),
    ]);
  };
}

/** The flags of a resource. */
interface Flags {
  readonly pages: boolean;
  /** Whether an operation lists all rows. */
  readonly hasWholeList: boolean;
  readonly ifMatch: boolean;
}

/** Returns what the templates need of a resource, except its migration and the stubs that it replaces. */
export function createTemplateValues(
  names: Names,
  fields: readonly Field[],
  has: Operations,
  { pages, hasWholeList, ifMatch }: Flags,
) {
  const writables = fields.filter(({ readOnly }) => !readOnly);
  const filters = fields.filter(({ filter }) => filter);
  const merged = has.update ? writables.filter(({ isMerged }) => isMerged) : [];
  const versioned = ifMatch || merged.length > 0;
  const references = fields.filter((field) => field.references !== undefined);
  const uniques = fields.filter(({ unique }) => unique);
  const constrained = writables.filter(
    (field) => uniques.includes(field) || references.includes(field),
  );
  const required = writables.filter((field) => !field.optional && field.default === undefined);
  const writeOnlys = fields.filter(({ writeOnly }) => writeOnly);
  const dateTimes = writables.filter(({ isDateTime }) => isDateTime);
  const initialized = fields.filter((field) => field.readOnly && field.default !== undefined);
  const isShownDifferently = writeOnlys.length > 0 || initialized.length > 0;
  const hasRow = has.replace || merged.length > 0 || (has.create && dateTimes.length > 0);
  const readOnlys = fields.filter(({ readOnly }) => readOnly);
  return {
    ...names,
    has,
    fields,
    writables,
    visible: fields.filter(({ writeOnly }) => !writeOnly),
    readOnlys,
    writeOnlys,
    optionals: writables.filter(({ optional }) => optional),
    required,
    defaults: writables.filter((field) => field.default !== undefined),
    /** The read-only fields that a create request sets. */
    initialized,
    merged,
    references,
    writableReferences: references.filter(({ readOnly }) => !readOnly),
    /** Whether there is a class of the body of a request. */
    hasBody: has.create || has.replace || (has.update && writeOnlys.length > 0),
    /** Whether the service converts a body to a whole row. */
    hasRow,
    /** The properties of the entity that a body does not determine, as a type. */
    unwritten: ['id', ...(versioned ? ['version'] : []), ...readOnlys.map((field) => field.name)]
      .map((property) => `'${property}'`)
      .join(' | '),
    /** Whether a response contains other properties than the body. */
    isShownDifferently,
    shown: (body: string) => (isShownDifferently ? `toResponse(${body})` : body),
    shownDefaults: writables.filter((field) => field.default !== undefined && !field.writeOnly),
    shownMerges: merged
      .filter(({ writeOnly }) => !writeOnly)
      .flatMap((field) => field.merges.map((merge) => [field.name, ...merge])),
    /** The variable that contains the row of a create request. */
    created: hasRow || initialized.length > 0 ? 'row' : names.item,
    invalidExample:
      required[0] === undefined
        ? 'property unknownProperty should not exist.'
        : `${required[0].name} is missing.`,
    pages,
    hasWholeList,
    ifMatch,
    versioned,
    /** What the service returns, and how it converts a row to it. */
    result: ifMatch ? `Versioned<${names.Item}>` : names.Item,
    convert: ifMatch ? 'toVersioned' : `to${names.Item}`,
    /** The error if no row meets the criteria of a statement. */
    notChanged: ifMatch ? 'preconditionFailed((await this.read(id)).version)' : 'notFound(id)',
    filters,
    indexed: fields.filter(
      (field) => references.includes(field) || (field.filter && !field.unique),
    ),
    uniques,
    uniqueNames: `[${uniques.map((field) => `'${field.name}'`).join(', ')}]`,
    constrained,
    constraintErrors: describeConstraintErrors(constrained),
    dateTimes,
    /** The dates and times that an update converts. */
    patchedDateTimes: dateTimes,
    /** The DTOs of bodies and filters, and where the service imports them from. */
    Body: `New${names.Item}`,
    Patch: `${names.Item}Patch`,
    Filters: `${names.Item}Filters`,
    dtoImports: [
      {
        file: names.itemName,
        imported: `${merged.length === 0 ? 'type ' : ''}New${names.Item}, type ${names.Item}, type ${names.Item}Filters, type ${names.Item}Patch, to${names.Item}`,
      },
    ],
    /** The property that identifies a row in a path. */
    key: { name: 'id', type: 'number' },
    /** Whether responses contain the id. */
    showsId: true,
    enums: fields.flatMap((field) => field.enums),
    classes: fields.flatMap((field) => field.classes),
    usesMissingId: has.read || has.replace || has.update || (has.create && references.length > 0),
    injectsRepository:
      has.read || has.replace || has.update || has.delete || (has.create && constrained.length > 0),
    summary: summarize(has),
    tagDescription: describeTag([names.nouns]),
  };
}

/** @throws {SchematicsException} if the operations do not fit the fields */
function checkOperations(fields: readonly Field[], has: Operations, ifMatch: boolean): void {
  const accepts = has.create || has.replace || has.update;
  if (ifMatch && !(has.read && (has.replace || has.update || has.delete)))
    throw new SchematicsException(
      '--if-match needs the operations read, and replace, update or delete.',
    );
  if (accepts && fields.every(({ readOnly }) => readOnly))
    throw new SchematicsException('A field that is not read-only is required.');
  const initialized = fields.find((field) => field.readOnly && field.default !== undefined);
  if (!has.create && initialized !== undefined)
    throw new SchematicsException(
      `The default of the read-only field ${initialized.name} needs the operation create.`,
    );
  const writeOnly = fields.find((field) => field.writeOnly);
  if (!accepts && writeOnly !== undefined)
    throw new SchematicsException(
      `The write-only field ${writeOnly.name} needs the operation create, replace or update.`,
    );
  const merged = fields.find(({ isMerged, readOnly }) => isMerged && !readOnly);
  if (has.update && !has.create && merged !== undefined)
    throw new SchematicsException(
      `The operation update of ${merged.name}, an object or a map, needs the operation create.`,
    );
}

/** Returns the errors of a create or an update, for the docstrings of the service. */
function describeConstraintErrors(constrained: readonly Field[]): string {
  const uniques = constrained.filter(({ unique }) => unique);
  const names = uniques.map(({ name }) => name).join(' or ');
  return [
    ...(constrained.some(({ references }) => references !== undefined)
      ? ['VALIDATION_FAILED if a referenced resource does not exist']
      : []),
    ...(uniques.length > 0 ? [`ALREADY_EXISTS if another resource has the same ${names}`] : []),
  ].join('; ');
}

/** @throws {SchematicsException} if a name is invalid */
export function createNames({ name: path, singular }: Pick<Options, 'name' | 'singular'>) {
  const segments = path.split('/');
  const name = segments.at(-1)!;
  const folder = segments[0]!;
  if (segments.length > 2 || !segments.every((segment) => SEGMENT.test(segment))) {
    throw new SchematicsException(
      `Invalid name ${path}: expected a name such as pets, pet-tags or store/orders.`,
    );
  }
  if (RESERVED_NAMES.has(name)) throw new SchematicsException(`${name} is a reserved name.`);
  if (name.length > MAX_NAME_LENGTH)
    throw new SchematicsException(`The name ${name} exceeds ${MAX_NAME_LENGTH} characters.`);
  const itemName = singular ?? pluralize.singular(name);
  if (itemName === name || !SEGMENT.test(itemName)) {
    throw new SchematicsException(
      `Cannot derive the singular of ${name}: use a plural name, or add --singular.`,
    );
  }
  const noun = itemName.replaceAll('-', ' ');
  const folderPath = `/src/modules/${folder}`;
  return {
    /** The stem of the files about all items; {@link itemName} is the stem of those about one. */
    name,
    itemName,
    folder,
    folderPath,
    modulePath: `${folderPath}/${folder}.module.ts`,
    /** The path of the operations, without the version. */
    path,
    table: strings.underscore(name),
    noun,
    Noun: strings.capitalize(noun),
    nouns: name.replaceAll('-', ' '),
    nounWithArticle: `${getArticle(noun)} ${noun}`,
    idParameter: `${strings.camelize(itemName)}Id`,
    item: strings.camelize(itemName),
    Item: strings.classify(itemName),
    items: strings.camelize(name),
    Items: strings.classify(name),
    Folder: strings.classify(folder),
  };
}

/** Returns "an" if a noun starts with a vowel sound, and "a" otherwise. */
function getArticle(noun: string): string {
  const hasVowelSound = /^(?:[aeiou]|hour|honou?r|honest|heir)/.test(noun);
  // As in user, unit, utility, uranium, euro, ewe and one; but not in usher, unimportant or utter.
  const hasConsonantSound =
    /^(?:us[aeiu]|uni(?!n|m|de)|ut[ei]|ur[aeio]|u[bfk][aeiou]|eu|ew|one\b|once\b)/.test(noun);
  return hasVowelSound && !hasConsonantSound ? 'an' : 'a';
}

function parseOperations(text: string): Operations {
  const operations = text.split(',').map((operation) => operation.trim());
  const unknownOperation = operations.find(
    (operation) => !(OPERATIONS as readonly string[]).includes(operation),
  );
  if (unknownOperation !== undefined) {
    throw new SchematicsException(
      `Unknown operation "${unknownOperation}", expected one of ${OPERATIONS.join(', ')}.`,
    );
  }
  return Object.fromEntries(
    OPERATIONS.map((operation) => [operation, operations.includes(operation)]),
  ) as Record<Operation, boolean>;
}

/** Returns the operations as a phrase, such as "Lists, creates and deletes". */
function summarize(has: Operations): string {
  const operations = OPERATIONS.filter((operation) => has[operation]);
  return strings.capitalize(joinWords(operations.map((operation) => VERBS[operation])));
}

function describeTag(nouns: readonly string[]): string {
  return `Operations on ${joinWords(nouns)}`;
}

/** Joins words as in "a, b and c". */
function joinWords(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function alreadyExists(path: string): SchematicsException {
  return new SchematicsException(`${path.replace(/^\//, '')} already exists.`);
}

/** Returns the content of a template. */
export const readTemplate = (file: string): string =>
  readFileSync(join(import.meta.dirname, TEMPLATES, file), 'utf8');

/** Returns the content of each template. */
export function readTemplates(): string[] {
  const folder = join(import.meta.dirname, TEMPLATES);
  return readdirSync(folder).map(readTemplate);
}

/**
 * @throws {SchematicsException} if the generated code needs a class of the resource for something else, or
 *   another resource has a schema with the same name
 */
function checkNames(
  tree: Tree,
  names: Names,
  fields: readonly Field[],
  templates: readonly string[],
): void {
  const { name, Item } = names;
  const classes = fields.flatMap((field) => field.classes.map((nested) => nested.name));
  const taken = classes.find((nested) =>
    templates.some((template) => new RegExp(`\\b${nested}\\b`).test(template)),
  );
  if (taken !== undefined)
    throw new SchematicsException(
      `The generated code needs ${taken} for something else: rename the field.`,
    );
  const [collision] = templates.flatMap((template) => findCollisions(template, names));
  if (collision !== undefined) {
    throw new SchematicsException(
      `The name ${name} cannot be used: the generated code needs ${collision} for something else.`,
    );
  }
  tree.getDir('/src').visit((path) => {
    if (!path.endsWith('.dto.ts')) return;
    const schema = [Item, `New${Item}`, `${Item}Patch`, ...classes].find((candidate) =>
      new RegExp(`class ${candidate}\\b`).test(tree.readText(path)),
    );
    if (schema !== undefined) {
      throw new SchematicsException(
        `${classes.includes(schema) ? 'A field' : `The name ${name}`} cannot be used: ${path.slice(1)} already has a schema named ${schema}.`,
      );
    }
  });
}

/**
 * Checks that no generated route matches the same requests as a route of another folder, unless the
 * `routeResolutionStrategy` of src/app.ts decides which one is used: of `pets/photos` and `pets/:petId` the
 * first, wherever they are declared.
 *
 * @throws {SchematicsException} with the route and its file
 */
function checkRoutes(tree: Tree, { path: resourcePath, folderPath }: Names, has: Operations): void {
  const routes = OPERATIONS.filter((operation) => has[operation]).map((operation) => ({
    method: METHODS[operation],
    path: getRoutePath(resourcePath, operation),
  }));
  tree.getDir('/src/modules').visit((file) => {
    if (!file.endsWith(CONTROLLER)) return;
    // Those of the same folder are replaced, or rejected, by replaceStubs.
    for (const { operations } of parseControllers(tree.readText(file))) {
      for (const existing of operations) {
        if (existing.version !== '1') continue;
        const conflict = routes.find(
          (route) =>
            route.method === existing.method &&
            isAmbiguous(route.path, existing.path) &&
            !(file.startsWith(`${folderPath}/`) && isSameRoute(route.path, existing.path)),
        );
        if (conflict !== undefined) {
          throw new SchematicsException(
            `${conflict.method} /v1/${conflict.path} would match the same requests as ` +
              `/v1/${existing.path} in ${file.slice(1)}.`,
          );
        }
      }
    }
  });
}

/** @throws {SchematicsException} if no entity has the table */
function checkReference(tree: Tree, field: string, table: string | undefined): void {
  if (table === undefined) return;
  let exists = false;
  tree.getDir('/src/modules').visit((path) => {
    if (path.endsWith('.entity.ts')) exists ||= tree.readText(path).includes(`@Entity('${table}')`);
  });
  if (!exists)
    throw new SchematicsException(`Invalid field ${field}: ${table} is not an existing resource.`);
}

/** Returns the timestamp of a migration that runs after all existing ones. */
export function nextTimestamp(tree: Tree): number {
  let timestamp = Date.now();
  tree.getDir('/src').visit((path) => {
    const existing = /\/migrations\/(\d{13})-[^/]*$/.exec(path)?.[1];
    timestamp = Math.max(timestamp, Number(existing ?? 0) + 1);
  });
  return timestamp;
}

/** Moves the rendered templates to their folders. */
function moveTemplates(files: Tree, { folderPath, modulePath }: Names, isNewFolder: boolean): void {
  files.visit((path) => {
    const file = path.slice(1);
    if (file.endsWith('.test.ts')) files.rename(path, `/test/${file}`);
    else if (/^\d{13}-/.test(file)) files.rename(path, `${folderPath}/migrations/${file}`);
    else if (!file.endsWith('.module.ts')) files.rename(path, `${folderPath}/${file}`);
    else if (isNewFolder) files.rename(path, modulePath);
    else files.delete(path);
  });
}

/**
 * Removes the stub operations that the generated ones replace from the controllers of the folder, and with the
 * last of them their tests.
 *
 * @returns the lifecycle decorators of the removed stubs, and the remaining members of the controller
 *   that is generated again
 */
function replaceStubs(
  tree: Tree,
  { folder, folderPath, modulePath, name, path: resourcePath }: Names,
  has: Operations,
): { lifecycle: Record<Operation, string>; remainingMembers: string } {
  const lifecycle = { list: '', create: '', read: '', replace: '', update: '', delete: '' };
  const generated = new Map<string, Operation>(
    OPERATIONS.filter((operation) => has[operation]).map((operation) => [
      `v1 ${METHODS[operation]} ${getRoutePath(resourcePath, operation)}`,
      operation,
    ]),
  );
  let remainingMembers = '';
  let hasReplaced = false;
  let hasStubs = false;
  for (const file of tree.getDir(folderPath).subfiles) {
    if (!file.endsWith(CONTROLLER)) continue;
    const path = `${folderPath}/${file}`;
    const text = tree.readText(path);
    for (const { name: className, operations } of parseControllers(text)) {
      const replaced = operations.filter((operation) => generated.has(getOperationKey(operation)));
      const implemented = replaced.find(({ isStub }) => !isStub);
      if (implemented !== undefined)
        throw alreadyExists(`${implemented.method} /v1/${implemented.path}`);
      for (const operation of replaced)
        lifecycle[generated.get(getOperationKey(operation))!] = operation.lifecycle.join('\n');
      const remaining = operations.filter((operation) => !replaced.includes(operation));
      hasReplaced ||= replaced.length > 0;
      hasStubs ||= remaining.some(({ isStub }) => isStub);
      if (file === `${name}${CONTROLLER}`) {
        if (remaining.some(({ isStub }) => !isStub)) throw alreadyExists(path);
        remainingMembers = remaining.map((operation) => operation.text).join('\n\n');
        tree.delete(path);
      } else if (replaced.length > 0 && remaining.length > 0) {
        tree.overwrite(path, organizeImports(removeOperations(text, replaced)));
      } else if (replaced.length > 0) {
        tree.delete(path);
        const module = tree.readText(modulePath);
        tree.overwrite(
          modulePath,
          organizeImports(removeElement(module, 'controllers', className)),
        );
      }
    }
  }
  const tests = `/test/${folder}.stubs.test.ts`;
  if (hasReplaced && !hasStubs && tree.exists(tests)) tree.delete(tests);
  return { lifecycle, remainingMembers };
}

/** Returns the version, the method and the path of an operation, with `:id` for each parameter. */
function getOperationKey({ method, path, version }: ParsedOperation): string {
  return `v${version} ${method} ${path.replaceAll(/:\w+/g, ':id')}`;
}

/** Returns the path of a generated operation, with `:id` for its parameter. */
function getRoutePath(resourcePath: string, operation: Operation): string {
  return operation === 'list' || operation === 'create' ? resourcePath : `${resourcePath}/:id`;
}

const isSameRoute = (a: string, b: string): boolean =>
  a.replaceAll(/:\w+/g, ':id') === b.replaceAll(/:\w+/g, ':id');

const isParameter = (segment: string): boolean => /^[:*{]/.test(segment);

const isMoreSpecific = (path: string[], other: string[]): boolean =>
  path.some((segment, i) => !isParameter(segment) && isParameter(other[i]!));

/** Returns whether some requests match two paths, neither of which is more specific than the other. */
export function isAmbiguous(a: string, b: string): boolean {
  const [left, right] = [a.split('/'), b.split('/')];
  if (left.length !== right.length) return false;
  const overlap = left.every(
    (segment, i) => segment === right[i] || isParameter(segment) || isParameter(right[i]!),
  );
  return overlap && isMoreSpecific(left, right) === isMoreSpecific(right, left);
}

/** Adds the module of a new folder to the features. */
function registerFeature(tree: Tree, { folder, Folder }: Names): void {
  const features = addElement(tree.readText(FEATURES_PATH), 'FEATURES', `${Folder}Module`);
  tree.overwrite(
    FEATURES_PATH,
    addImport(features, `${Folder}Module`, `./modules/${folder}/${folder}.module.js`),
  );
}

/** Adds the parts of the resource to the module of an existing folder. */
function extendModule(tree: Tree, names: Names, migration: string, timestamp: number): void {
  const { modulePath, name, itemName, Item, Items } = names;
  let module = tree
    .readText(modulePath)
    .replace(/'Operations on ([^']*)'/, (_description, nouns: string) => {
      return `'${describeTag([...nouns.split(/, | and /), names.nouns])}'`;
    })
    .replace(`'${STUB_TAG_DESCRIPTION}'`, `'${describeTag([names.nouns])}'`);
  for (const [property, element, path] of [
    ['entities', `${Item}Entity`, `./${itemName}.entity.js`],
    ['migrations', migration, `./migrations/${timestamp}-create-${name}.js`],
    ['controllers', `${Items}Controller`, `./${name}.controller.js`],
    ['providers', `${Items}Service`, `./${name}.service.js`],
  ] as const)
    module = addImport(addElement(module, property, element), element, path);
  tree.overwrite(modulePath, module);
}

/** Records the changes, so that they can be undone. */
function writeRecord(before: Tree, tree: Tree, { path, table, Folder }: Names): void {
  const files = tree.actions.map(({ path: file }) => ({
    path: file,
    before: readFile(before, file),
    after: readFile(tree, file),
  }));
  const record: GenerationRecord = { table, module: `${Folder}Module`, files };
  const recordPath = getRecordPath(path);
  // Left by files that were deleted by hand.
  if (tree.exists(recordPath)) tree.delete(recordPath);
  tree.create(recordPath, JSON.stringify(record));
}

/** Removes the unused imports of the templates, and formats all changed files. */
async function formatFiles(tree: Tree, createdFiles: readonly string[]): Promise<void> {
  for (const { kind, path } of tree.actions) {
    if (kind === 'd' || !path.endsWith('.ts')) continue;
    const text = tree.readText(path);
    const organized = createdFiles.includes(path) ? organizeImports(text) : text;
    tree.overwrite(path, await formatSource(tree, organized));
  }
}
