import {
  apply,
  applyTemplates,
  chain,
  mergeWith,
  move,
  type Rule,
  SchematicsException,
  strings,
  type Tree,
  url,
} from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import { format, type Options as PrettierOptions } from 'prettier';
import { getEnumConstantName, type Field, parseFields } from './fields.js';
import { RESERVED_FOLDERS } from './reserved-folders.js';
import {
  addElement,
  addImport,
  findArray,
  parseControllers,
  organizeImports,
  type StubOperation,
  removeMembers,
} from './source.js';

/** The options of schema.json. */
interface Options {
  readonly name: string;
  readonly fields: string;
  readonly operations: string;
  readonly singular?: string;
}

const OPERATIONS = ['list', 'create', 'read', 'update', 'delete'] as const;
type Operation = (typeof OPERATIONS)[number];

const METHODS: Record<Operation, string> = {
  list: 'GET',
  create: 'POST',
  read: 'GET',
  update: 'PATCH',
  delete: 'DELETE',
};

/** Seen from dist, where this file is compiled to. */
const FILES = '../../../schematics/resource/files';
const SEGMENT = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const CONTROLLER = '.controller.ts';

/** The names of a resource in all their forms. */
type Names = ReturnType<typeof createNames>;

/**
 * Writes a resource in the house style: a folder of `src`, a migration and a test, and the lines that
 * make them known. An operation of the same path that is published, but answers 501, is replaced; its
 * `@Deprecated` and `@Stability` stay.
 */
export function resource(options: Options): Rule {
  return (tree) => {
    const names = createNames(options);
    const has = parseOperations(options.operations);
    const fields = parseFields(options.fields, names.table, names.Item);
    for (const { name, references } of fields) checkReference(tree, name, references);
    const timestamp = nextTimestamp(tree);
    const migration = `Create${names.Items}${timestamp}`;
    const published = replaceStubs(tree, names, has);
    const createdFiles = [
      `/src/${names.folder}/${names.name}.entity.ts`,
      `/src/${names.folder}/${names.name}.dto.ts`,
      `/src/${names.folder}/${names.name}.service.ts`,
      `/src/${names.folder}/${names.name}${CONTROLLER}`,
      `/src/database/migrations/${timestamp}-create-${names.name}.ts`,
      `/test/${names.name}.test.ts`,
    ];
    const isNewFolder = !tree.exists(moduleFile(names));
    if (isNewFolder) createdFiles.push(moduleFile(names));
    const taken = createdFiles.filter((path) => tree.exists(path));
    if (taken.length > 0) {
      throw new SchematicsException(
        `Nothing is overwritten, and there is ${taken.join(' and ')} already.`,
      );
    }
    const optionals = fields.filter(({ optional }) => optional);
    const references = fields.filter(({ references }) => references !== undefined);
    const dateTimes = fields.filter(({ isDateTime }) => isDateTime);
    const values = {
      ...names,
      ...published,
      has,
      fields,
      optionals,
      references,
      dateTimes,
      required: fields.filter(({ optional }) => !optional),
      converted: fields.filter(({ rowType, entityType }) => rowType !== entityType),
      explains: references.length > 0 && (has.create || has.update),
      usesUnknown: has.read || has.update || (has.create && references.length > 0),
      migration,
      timestamp,
      getEnumConstantName,
      rowOf: (body: string, isWhole: boolean) => rowOf(body, fields, isWhole),
    };
    return chain([
      mergeWith(
        apply(url(FILES), [
          applyTemplates(values),
          (files) => placeFiles(files, names, isNewFolder),
          move('/'),
        ]),
      ),
      (target) => registerModule(target, names, migration, timestamp, isNewFolder),
      (target) => updateDocs(target, names, has),
      (target) => formatFiles(target, createdFiles),
    ]);
  };
}

function createNames({ name: given, singular: ownSingular }: Options) {
  const segments = given.split('/');
  const name = segments.at(-1)!;
  const folder = segments[0]!;
  if (segments.length > 2 || !segments.every((segment) => SEGMENT.test(segment))) {
    throw new SchematicsException(`${given} is no name such as pets, pet-tags or store/orders.`);
  }
  if (RESERVED_FOLDERS.has(folder))
    throw new SchematicsException(`src/${folder} is no folder of a feature.`);
  const singular = ownSingular ?? pluralize.singular(name);
  if (singular === name || !SEGMENT.test(singular)) {
    throw new SchematicsException(
      `The singular of ${name} is not known, or the same: name the resource in the plural, or add --singular.`,
    );
  }
  const table = strings.underscore(name);
  if (table.length > 40) throw new SchematicsException(`${name} is longer than 40 characters.`);
  const word = singular.replaceAll('-', ' ');
  const article = /^[aeiou]/.test(word) ? 'an' : 'a';
  return {
    /** The stem of the files. */
    name,
    folder,
    path: given,
    segment: name,
    table,
    words: name.replaceAll('-', ' '),
    word,
    aWord: `${article} ${word}`,
    anItem: `${article} ${word}`,
    AnItem: `${strings.capitalize(article)} ${word}`,
    item: strings.camelize(singular),
    Item: strings.classify(singular),
    items: strings.camelize(name),
    Items: strings.classify(name),
    Folder: strings.classify(folder),
  };
}

function parseOperations(text: string): Record<Operation, boolean> {
  const operations = text.split(',').map((operation) => operation.trim());
  const strange = operations.find(
    (operation) => !(OPERATIONS as readonly string[]).includes(operation),
  );
  if (strange !== undefined) {
    throw new SchematicsException(
      `There is no operation ${strange || 'without a name'}: ${OPERATIONS.join(', ')}.`,
    );
  }
  return Object.fromEntries(
    OPERATIONS.map((operation) => [operation, operations.includes(operation)]),
  ) as Record<Operation, boolean>;
}

function checkReference(tree: Tree, field: string, table: string | undefined): void {
  if (table === undefined) return;
  let isKnown = false;
  tree.getDir('/src').visit((path) => {
    const folder = path.split('/')[2]!;
    if (path.endsWith('.entity.ts') && !RESERVED_FOLDERS.has(folder)) {
      isKnown ||= tree.readText(path).includes(`@Entity('${table}')`);
    }
  });
  if (!isKnown)
    throw new SchematicsException(`The field ${field} refers to ${table}, which is no resource.`);
}

/** Later than every migration that there is. */
function nextTimestamp(tree: Tree): number {
  const taken = tree
    .getDir('/src/database/migrations')
    .subfiles.map((file) => Number(/^\d{13}/.exec(file)?.[0] ?? 0));
  return Math.max(Date.now(), ...taken.map((timestamp) => timestamp + 1));
}

/** What a body says, as the table keeps it: points in time as numbers. */
function rowOf(body: string, fields: readonly Field[], isWhole: boolean): string {
  if (!fields.some(({ isDateTime }) => isDateTime)) return body;
  const properties = fields.map(({ name, isDateTime, optional }) => {
    const value = `${body}.${name}`;
    if (!isDateTime) return `${name}: ${value}`;
    return isWhole && !optional
      ? `${name}: Date.parse(${value})`
      : `${name}: typeof ${value} === 'string' ? Date.parse(${value}) : ${value}`;
  });
  return `{ ${properties.join(', ')} }`;
}

const moduleFile = ({ folder }: Names): string => `/src/${folder}/${folder}.module.ts`;

/** Moves the rendered templates to where they belong. */
function placeFiles(files: Tree, { folder, name }: Names, isNewFolder: boolean): void {
  files.visit((path) => {
    const file = path.slice(1);
    if (file.endsWith('.test.ts')) files.rename(path, `/test/${file}`);
    else if (/^\d{13}-/.test(file)) files.rename(path, `/src/database/migrations/${file}`);
    else if (!file.endsWith('.module.ts')) files.rename(path, `/src/${folder}/${file}`);
    else if (isNewFolder) files.rename(path, `/src/${folder}/${file.replace(name, folder)}`);
    else files.delete(path);
  });
}

/**
 * Takes the operations that answer 501 out of the folder's controllers, where they are to be written.
 *
 * @returns the lifecycle that they declare, and what else the controller of the same name has
 */
function replaceStubs(
  tree: Tree,
  names: Names,
  has: Record<Operation, boolean>,
): { lifecycle: Record<Operation, string>; remainingMembers: string } {
  const lifecycle = { list: '', create: '', read: '', update: '', delete: '' };
  const wanted = new Map<string, Operation>(
    OPERATIONS.filter((operation) => has[operation]).map((operation) => [
      `${METHODS[operation]} ${names.path}${operation === 'list' || operation === 'create' ? '' : '/:'}`,
      operation,
    ]),
  );
  let remainingMembers = '';
  for (const file of tree.getDir(`/src/${names.folder}`).subfiles) {
    const path = `/src/${names.folder}/${file}`;
    if (!file.endsWith(CONTROLLER)) continue;
    const text = tree.readText(path);
    for (const { name: className, operations } of parseControllers(text)) {
      const replaced = operations.filter((operation) => wanted.has(getOperationKey(operation)));
      const real = replaced.find(({ isStub }) => !isStub);
      if (real !== undefined) {
        throw new SchematicsException(
          `Nothing is overwritten, and ${file} serves ${getOperationKey(real)} already.`,
        );
      }
      for (const operation of replaced)
        lifecycle[wanted.get(getOperationKey(operation))!] = operation.lifecycle.join('\n');
      const left = operations.filter((operation) => !replaced.includes(operation));
      if (file === `${names.name}${CONTROLLER}`) {
        if (left.some(({ isStub }) => !isStub)) {
          throw new SchematicsException(
            `Nothing is overwritten, and ${file} has operations already.`,
          );
        }
        remainingMembers = left.map((operation) => operation.text).join('\n\n');
        tree.delete(path);
      } else if (replaced.length > 0 && left.length > 0) {
        tree.overwrite(path, organizeImports(removeMembers(text, replaced)));
      } else if (replaced.length > 0) {
        tree.delete(path);
        const module = tree.readText(moduleFile(names));
        tree.overwrite(
          moduleFile(names),
          organizeImports(module.replace(new RegExp(`\\b${className}\\b,?(?![^;]*from)`), '')),
        );
      }
    }
  }
  return { lifecycle, remainingMembers };
}

/** The method and the path, with a bare colon for each parameter. */
function getOperationKey({ method, path }: StubOperation): string {
  return `${method} ${path.replaceAll(/:\w+/g, ':')}`;
}

/** Makes the parts known: to the module, the application and the database. */
function registerModule(
  tree: Tree,
  { folder, Folder, name, Item, Items }: Names,
  migration: string,
  timestamp: number,
  isNewFolder: boolean,
): void {
  const edit = (path: string, change: (text: string) => string): void =>
    tree.overwrite(path, change(tree.readText(path)));
  edit(`/src/${folder}/${folder}.module.ts`, (text) => {
    let module = text;
    for (const [list, kind] of [
      ['controllers', 'Controller'],
      ['providers', 'Service'],
    ] as const) {
      module = addElement(module, findArray(module, list), `${Items}${kind}`);
      module = addImport(module, `${Items}${kind}`, `./${name}.${kind.toLowerCase()}.js`);
    }
    return module;
  });
  if (isNewFolder) {
    edit('/src/app.module.ts', (text) =>
      addImport(
        addElement(
          text,
          findArray(text, 'imports', 'AppModule'),
          `${Folder}Module`,
          'HealthModule',
        ),
        `${Folder}Module`,
        `./${folder}/${folder}.module.js`,
      ),
    );
  }
  edit('/src/database/options.ts', (text) => {
    let options = addElement(text, findArray(text, 'entities'), `${Item}Entity`);
    options = addElement(options, findArray(options, 'migrations'), migration);
    options = addImport(options, `${Item}Entity`, `../${folder}/${name}.entity.js`);
    return addImport(options, migration, `./migrations/${timestamp}-create-${name}.js`);
  });
}

/** Tells the readers: the tag of the document, the README's table of operations, and the conformance check. */
function updateDocs(
  tree: Tree,
  { folder, path, words, aWord, item, Item, Items }: Names,
  has: Record<Operation, boolean>,
): void {
  const openapi = tree.readText('/src/openapi.ts');
  const tag = new RegExp(`(\\.addTag\\('${folder}', '[^']*?)(: published, not specified yet)?'`);
  tree.overwrite(
    '/src/openapi.ts',
    tag.test(openapi)
      ? openapi.replace(tag, `$1'`)
      : openapi.replace(
          '.addBearerAuth(',
          `.addTag('${folder}', '${strings.capitalize(words)}')\n    .addBearerAuth(`,
        ),
  );
  const one = `/v1/${path}/{${item}Id}`;
  const rows: Record<Operation, [id: string, path: string, what: string]> = {
    list: [`list${Items}`, `/v1/${path}`, `every ${aWord.replace(/^an? /, '')}`],
    create: [`create${Item}`, `/v1/${path}`, aWord],
    read: [`get${Item}`, one, aWord],
    update: [`update${Item}`, one, 'a JSON merge patch'],
    delete: [`delete${Item}`, one, aWord],
  };
  const conformance = '/conformance/read.arazzo.yaml';
  let workflows = tree.readText(conformance);
  for (const operation of OPERATIONS.filter((candidate) => has[candidate])) {
    const start = `  - workflowId: unspecified-${rows[operation][0]}\n`;
    workflows = workflows.replace(new RegExp(`^${start}((?!  - ).*\n)*`, 'm'), '');
  }
  if (workflows !== tree.readText(conformance)) tree.overwrite(conformance, workflows);
  const lines = tree.readText('/README.md').split('\n');
  const first = lines.findIndex((line) => line.startsWith('| Operation |'));
  if (first === -1) return;
  for (const operation of OPERATIONS.filter((candidate) => has[candidate])) {
    const [id, address, what] = rows[operation];
    const known = lines.findIndex((line) => line.startsWith(`| \`${id}\` |`));
    const marker =
      known === -1
        ? ''
        : /\| ((deprecated|experimental|beta); )?not specified/.exec(lines[known]!)?.[2];
    const row = `| \`${id}\` | \`${METHODS[operation]} ${address}\` | ${[marker, what].filter(Boolean).join('; ')} |`;
    let end = first;
    while (lines[end]!.startsWith('|')) end++;
    if (known === -1) lines.splice(end, 0, row);
    else lines[known] = row;
  }
  tree.overwrite('/README.md', lines.join('\n'));
}

/** Leaves out the imports that are not used, and formats: the templates care for neither. */
async function formatFiles(tree: Tree, createdFiles: readonly string[]): Promise<void> {
  const options = JSON.parse(tree.readText('/.prettierrc.json')) as PrettierOptions;
  for (const { kind, path } of tree.actions) {
    if (kind === 'd' || !path.endsWith('.ts')) continue;
    const text = tree.readText(path);
    const organized = createdFiles.includes(path) ? organizeImports(text) : text;
    tree.overwrite(path, await format(organized, { ...options, parser: 'typescript' }));
  }
}
