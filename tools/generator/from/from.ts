import { relative, resolve as resolvePath } from 'node:path';
import {
  applyContentTemplate,
  type Rule,
  SchematicsException,
  strings,
  type Tree,
} from '@angular-devkit/schematics';
import { aliasImports } from '../resource/collisions.js';
import { FEATURES_PATH } from '../resource/record.js';
import {
  createTemplateValues,
  isAmbiguous,
  nextTimestamp,
  readTemplate,
} from '../resource/resource.js';
import {
  addConstructorParameter,
  addElement,
  addImport,
  addMissing,
  addReturnedProperty,
  decorateClass,
  formatSource,
  hasMember,
  organizeImports,
  parseControllers,
  type ParsedOperation,
  removeElement,
  removeOperations,
} from '../resource/source.js';
import { Classes, ERROR_CLASS, render, toFileName } from './classes.js';
import { ContractError, readContract } from '../../openapi/contract.js';
import type { Field } from '../resource/fields.js';
import { joinPointer, type OpenApiDocument } from '../../openapi/openapi.js';
import { type GeneratedOperation, writeOperations } from './operations.js';
import { renderAddColumn, withDefault } from './fields.js';
import { renderResourceTest, renderRouteTests } from './resource-test.js';
import {
  type Implementation,
  type RecognizedResources,
  recognizeResources,
  type Resource,
} from './resources.js';
import { GENERATOR_RULES } from './rules.js';
import { StorageFile } from './storage.js';

/** The options of schema.json. */
interface Options {
  readonly contract: string;
  readonly module?: string;
}

const SEGMENT = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const PLATFORM = '../../platform';

/** All that the methods of controllers may use; those that a controller does not need are removed. */
const CONTROLLER_IMPORTS = `
import { Body, Controller, Delete, Get, Headers, HttpCode, Param, Patch, Post, Put, Query } from '@nestjs/common';
import { ApiAcceptedResponse, ApiBadRequestResponse, ApiBody, ApiConflictResponse, ApiConsumes, ApiCreatedResponse, ApiExtraModels, ApiForbiddenResponse, ApiHeader, ApiNoContentResponse, ApiNotFoundResponse, ApiNotModifiedResponse, ApiOkResponse, ApiOperation, ApiPreconditionFailedResponse, ApiResponse, ApiTags, getSchemaPath } from '@nestjs/swagger';
import type { CachedJsonResponse } from '${PLATFORM}/http/responses/cached-json-response.js';
import { ReturnsLocation } from '${PLATFORM}/resource/returns-location.js';
import { Public } from '${PLATFORM}/auth/public.decorator.js';
import { ApiError } from '${PLATFORM}/errors/api-error.js';
import { BinaryBody } from '${PLATFORM}/resource/binary-body.decorator.js';
import { ${ERROR_CLASS} } from '${PLATFORM}/http/responses/error-body.dto.js';
import { IdParam } from '${PLATFORM}/resource/id-param.decorator.js';
import { IdempotencyKey } from '${PLATFORM}/idempotency/idempotency-key.decorator.js';
import { ApiListHeaders } from '${PLATFORM}/resource/operation.decorators.js';
`;
const CLASS_IMPORTS = `
import { ApiSchema } from '@nestjs/swagger';
import { ${ERROR_CLASS} } from '${PLATFORM}/http/responses/error-body.dto.js';
import { Property } from '${PLATFORM}/resource/property.js';
`;

/**
 * Generates a module of a published OpenAPI document: the DTOs of its schemas, and its operations as stubs
 * that return 501. Run again, it adds what the document has and the module lacks, and changes nothing else.
 */
export function from({ contract, module }: Options): Rule {
  return async (tree, { logger }) => {
    try {
      const path = relative('.', resolvePath(contract));
      if (path.startsWith('..'))
        throw new ContractError([
          `${contract}: The contract must be in the project, for its tests.`,
        ]);
      const name = module ?? strings.dasherize(path.split('/').at(-1)!.split('.')[0]!);
      if (!SEGMENT.test(name))
        throw new ContractError([
          `${contract}: ${name} cannot be the name of a module; add --module.`,
        ]);
      const document = await readContract(path, GENERATOR_RULES);
      const writer = new ModuleWriter(tree, document, path, name);
      await writer.write();
      for (const line of writer.describeStubs()) logger.info(line);
    } catch (error) {
      if (error instanceof ContractError)
        throw new SchematicsException(
          error.problems
            .map((problem) => (problem.startsWith('#') ? `${contract}${problem}` : problem))
            .join('\n'),
        );
      throw error;
    }
  };
}

class ModuleWriter {
  private readonly classes: Classes;
  private readonly operations: readonly GeneratedOperation[];
  private readonly folder: string;
  private readonly storage: StorageFile;
  private readonly recognized: RecognizedResources;
  private readonly reasons: Map<string, string>;
  /** The resources that the generator stores. */
  private readonly resources: readonly Resource[];
  /** The ids of the operations that return 501. */
  private readonly stubs = new Set<string>();
  /** The stubs that are implemented now, by their ids. */
  private readonly replaced = new Map<string, OwnOperation>();

  constructor(
    private readonly tree: Tree,
    private readonly document: OpenApiDocument,
    private readonly contract: string,
    private readonly name: string,
  ) {
    this.classes = new Classes(document);
    this.folder = `/src/modules/${name}`;
    this.storage = new StorageFile(tree, name, contract);
    this.recognized = recognizeResources(document, this.classes, this.storage, name);
    this.reasons = new Map(this.recognized.reasons);
    this.operations = writeOperations(document, this.classes, name, this.getImplementations());
    this.resources = this.recognized.resources.filter((resource) => this.isImplemented(resource));
  }

  async write(): Promise<void> {
    this.checkClasses();
    const added = this.findNewOperations();
    this.checkTables();
    this.checkDecisions();
    const addedIds = new Set(added.map(({ id }) => id));
    const resources = this.resources.map((resource) => ({
      resource,
      isNew: !this.tree.exists(this.getEntityPath(resource)),
      change: this.findChange(resource, addedIds),
    }));
    for (const { name, text, uses } of this.classes.generated.values()) {
      const path = this.getClassPath(name);
      const source = `${CLASS_IMPORTS}${this.importClasses(uses)}\n${text}`;
      await this.saveMissing(path, source);
    }
    const segments = [...new Set(added.map(getSegment))];
    for (const segment of segments)
      await this.writeController(
        segment,
        added.filter((operation) => getSegment(operation) === segment),
      );
    if (added.length > 0) {
      await this.writeModule(segments);
      await this.writeTest(added);
    }
    for (const { resource, isNew, change } of resources) {
      if (isNew) await this.writeResource(resource);
      else await this.extendResource(resource, change);
    }
    this.storage.save();
  }

  /** Returns a sentence for each operation that is a stub, with the reason. */
  describeStubs(): string[] {
    return this.operations
      .filter(({ id }) => this.stubs.has(id))
      .map(({ id }) => `${id} returns 501: ${this.reasons.get(id) ?? 'it is not implemented'}.`);
  }

  private getClassPath(name: string): string {
    return `${this.folder}/${toFileName(name)}.dto.ts`;
  }

  private importClasses(names: Iterable<string>): string {
    return [...names]
      .filter((name) => name !== ERROR_CLASS)
      .map((name) => `import { ${name} } from './${toFileName(name)}.dto.js';\n`)
      .join('');
  }

  /** @throws {ContractError} if another module, or the platform, has a class with the same name */
  private checkClasses(): void {
    this.tree.getDir('/src').visit((path) => {
      if (!path.endsWith('.ts') || path.startsWith(`${this.folder}/`)) return;
      const text = this.tree.readText(path);
      for (const { name, pointer } of this.classes.generated.values()) {
        if (new RegExp(`^export class ${name}\\b`, 'm').test(text))
          throw new ContractError([`${pointer}: The class ${name} exists in ${path.slice(1)}.`]);
      }
    });
  }

  /** Returns the operations of the controllers of the module, by their ids. */
  private readOwnOperations(): Map<string, OwnOperation> {
    const own = new Map<string, OwnOperation>();
    this.tree.getDir(this.folder).visit((file) => {
      if (!file.endsWith('.controller.ts')) return;
      const controllers = parseControllers(this.tree.readText(file));
      for (const operation of controllers.flatMap(({ operations }) => operations)) {
        const [, id] = /operationId: ["'](\w+)["']/.exec(operation.text) ?? [];
        if (id !== undefined) own.set(id, { ...operation, file });
      }
    });
    return own;
  }

  /**
   * Returns how operations are implemented: not those of a resource that was written by hand, or whose
   * service lacks what they need.
   */
  private getImplementations(): Map<string, Implementation> {
    const own = this.readOwnOperations();
    const { resources, implementations } = this.recognized;
    const result = new Map(implementations);
    const reject = (id: string, reason: string): void => {
      result.delete(id);
      this.reasons.set(id, reason);
    };
    for (const resource of resources) {
      const { names, routes } = resource;
      const create = own.get(routes.find(({ kind }) => kind === 'create')!.id);
      if (this.tree.exists(this.getEntityPath(resource))) {
        const path = this.getServicePath(resource);
        const service = this.tree.exists(path) ? this.tree.readText(path) : '';
        const className = `${names.Items}Service`;
        const hasFilters = resource.fields.some(({ filter }) => filter);
        for (const { id, query } of routes.filter(({ kind }) => kind === 'list')) {
          const method = query.includes('limit') ? 'listPage' : 'list';
          const canList =
            hasMember(service, className, method) &&
            (!hasFilters || new RegExp(`\\n {2}${method}\\([^)]*filters`).test(service));
          if (!canList && (own.get(id)?.isStub ?? true))
            reject(id, `${className} has no such list`);
        }
      } else if (create?.isStub === false) {
        for (const { id } of routes)
          reject(id, 'another operation on the resource was written by hand');
      }
    }
    return result;
  }

  /** Whether the resource was generated, or is. */
  private isImplemented({ routes }: Resource): boolean {
    return routes.some(({ id }) =>
      this.operations.some(
        (operation) => operation.id === id && operation.implementation !== undefined,
      ),
    );
  }

  private getEntityPath({ names }: Resource): string {
    return `${this.folder}/${names.itemName}.entity.ts`;
  }

  private getServicePath({ names }: Resource): string {
    return `${this.folder}/${names.name}.service.ts`;
  }

  private getTestPath({ names }: Resource): string {
    return `/test/${this.name}.${names.name}.databases.test.ts`;
  }

  /** @throws {ContractError} if a table has another entity already, or none has one that is referenced */
  private checkTables(): void {
    const tables = new Set<string>();
    const own = this.resources.map(({ names }) => names.table);
    const repeated = own.find((table, index) => own.indexOf(table) !== index);
    if (repeated !== undefined)
      throw new ContractError([
        `${this.storage.path.slice(1)}#/: two tables would have the name ${repeated}.`,
      ]);
    this.tree.getDir('/src').visit((path) => {
      if (!path.endsWith('.entity.ts')) return;
      for (const [, table] of this.tree.readText(path).matchAll(/@Entity\('(\w+)'\)/g)) {
        if (!path.startsWith(`${this.folder}/`) && own.includes(table!))
          throw new ContractError([`${this.contract}#/: ${path.slice(1)} has the table ${table}.`]);
        tables.add(table!);
      }
    });
    for (const table of own) tables.add(table);
    for (const { className, properties } of this.resources) {
      const missing = properties.find(
        ({ references }) => references !== undefined && !tables.has(references),
      );
      if (missing !== undefined)
        throw new ContractError([
          `${this.storage.path.slice(1)}#/${className}/${missing.name}: there is no table ${missing.references}.`,
        ]);
    }
  }

  /** @throws {ContractError} if a generated resource has a new property whose storage is uncertain */
  private checkDecisions(): void {
    for (const [className, properties] of this.recognized.undecided) {
      if (!this.tree.exists(`${this.folder}/${toFileName(className)}.entity.ts`)) continue;
      throw new ContractError(
        properties.map(
          (name) =>
            `${this.storage.path.slice(1)}#/${className}/${name}: decide how it is stored: column, references <table>, or now.`,
        ),
      );
    }
  }

  /**
   * Returns what the contract has, and the DTOs and controllers of the module lack. What only an entity or a
   * service lacks, a person has removed.
   *
   * @throws {ContractError} if a list without filters gets one
   */
  private findChange(resource: Resource, addedIds: ReadonlySet<string>): Change {
    const { className, bodyClass, names, properties, routes } = resource;
    const read = (name: string): string => {
      const path = this.getClassPath(name);
      return this.tree.exists(path) ? this.tree.readText(path) : '';
    };
    const texts = [className, bodyClass].map((name) => ({ name, text: read(name) }));
    for (const { text } of texts) {
      const [, base] = /^export class \w+ extends (\w+) /m.exec(text) ?? [];
      if (base !== undefined && texts.every(({ name }) => name !== base))
        texts.push({ name: base, text: read(base) });
    }
    const newProperties = properties
      .map(({ name }) => name)
      .filter((property) => !texts.some(({ name, text }) => hasMember(text, name, property)));
    const newFilters = routes.flatMap(({ id, query }) => {
      const dto = `${strings.classify(id)}Query`;
      const filters = query.filter((name) => addedIds.has(id) || !hasMember(read(dto), dto, name));
      const path = this.getServicePath(resource);
      const service = this.tree.exists(path) ? this.tree.readText(path) : 'filters';
      if (filters.length > 0 && !addedIds.has(id) && !service.includes('filters'))
        throw new ContractError([
          `${this.contract}#/: ${names.Items}Service.list has no filters: add ${filters.join(', ')} of ${id} by hand.`,
        ]);
      return filters;
    });
    return {
      properties: new Set(newProperties),
      filters: new Set(newFilters),
      addedIds,
    };
  }

  /**
   * Returns the operations to write: those that the module lacks, and stubs that can be implemented.
   *
   * @throws {ContractError} if a route matches the same requests as another operation
   */
  private findNewOperations(): GeneratedOperation[] {
    const existing = new Set<string>();
    const problems: string[] = [];
    this.tree.getDir('/src/modules').visit((file) => {
      if (!file.endsWith('.controller.ts')) return;
      for (const route of parseControllers(this.tree.readText(file)).flatMap(
        ({ operations }) => operations,
      )) {
        const operation = this.operations.find(
          ({ method, path }) =>
            route.version === '1' && method === route.method && isAmbiguous(path, route.path),
        );
        if (operation === undefined) {
          const [, id] = /operationId: ["'](\w+)["']/.exec(route.text) ?? [];
          const other = this.operations.find((candidate) => candidate.id === id);
          if (other !== undefined && !file.startsWith(`${this.folder}/`))
            problems.push(
              `${joinPointer(other.pointer, 'operationId')}: ${file.slice(1)} has the operation ${id}.`,
            );
          continue;
        }
        const isOwn = file.startsWith(`${this.folder}/`) && operation.path === route.path;
        if (isOwn && new RegExp(`operationId: ["']${operation.id}["']`).test(route.text)) {
          if (operation.implementation === undefined || !route.isStub) existing.add(operation.id);
          else this.replaced.set(operation.id, { ...route, file });
          if (route.isStub && operation.implementation === undefined) this.stubs.add(operation.id);
        } else {
          problems.push(
            `${operation.pointer}: ${route.method} /v1/${route.path} exists in ${file.slice(1)}, and matches the same requests.`,
          );
        }
      }
    });
    if (problems.length > 0) throw new ContractError(problems);
    const added = this.operations.filter(({ id }) => !existing.has(id));
    for (const { id, implementation } of added)
      if (implementation === undefined) this.stubs.add(id);
    return added;
  }

  private async writeController(
    segment: string,
    operations: readonly GeneratedOperation[],
  ): Promise<void> {
    const path = `${this.folder}/${toFileName(segment)}.controller.ts`;
    const name = `${strings.classify(segment)}Controller`;
    const imports =
      this.aliasDecorators(CONTROLLER_IMPORTS, /(?<=[{,] )(\w+)(?=[, ])/g, '$1 as Nest$1') +
      this.importClasses(this.classes.generated.keys());
    const tags = [...new Set(operations.map(({ tag }) => tag))];
    const replaced = operations.flatMap(({ id }) => this.replaced.get(id) ?? []);
    const existing = this.tree.exists(path)
      ? removeOperations(this.tree.readText(path), replaced)
      : undefined;
    const services = this.resources.filter(({ names }) =>
      operations.some(({ implementation }) => implementation?.names.table === names.table),
    );
    const serviceImports = services
      .map(({ names }) => `import { ${names.Items}Service } from './${names.name}.service.js';\n`)
      .join('');
    const parameters = services.map(
      ({ names }) => `private readonly ${names.items}: ${names.Items}Service`,
    );
    // A tag of the class would be added to that of a method.
    const classTag =
      existing === undefined ? (tags.length === 1 ? tags[0] : undefined) : getClassTag(existing);
    const methods = operations.map(({ tag, text: method, pointer }) => {
      const text = this.aliasDecorators(method, /(?<=^@|[(,] @)(\w+)(?=\()/gm, 'Nest$1');
      if (tag === classTag) return text;
      if (classTag !== undefined)
        throw new ContractError([
          `${pointer}/tags: ${name} has the tag ${classTag}: declare the tags of its methods.`,
        ]);
      return text.replace(/\n/, `\n@ApiTags(${render(tag)})\n`);
    });
    if (existing !== undefined) {
      const end = existing.lastIndexOf('}');
      const text = `${imports}${serviceImports}${existing.slice(0, end)}\n${methods.join('\n\n')}\n}\n`;
      await this.save(
        path,
        parameters.reduce(
          (rest, parameter) => addConstructorParameter(rest, name, parameter),
          text,
        ),
      );
      return;
    }
    const tag = classTag === undefined ? '' : `@ApiTags(${render(classTag)})\n`;
    await this.save(
      path,
      `${imports}${serviceImports}\n${tag}@Controller(${render(segment)})\nexport class ${name} {\n` +
        `${parameters.length === 0 ? '' : `constructor(${parameters.join(', ')}) {}\n\n`}${methods.join('\n\n')}\n}\n`,
    );
  }

  /** Renames the decorators that have the name of a class, as in `ApiResponse as NestApiResponse`. */
  private aliasDecorators(text: string, names: RegExp, alias: string): string {
    return text.replaceAll(names, (name) =>
      this.classes.generated.has(name) ? alias.replaceAll('$1', name) : name,
    );
  }

  private async writeModule(segments: readonly string[]): Promise<void> {
    const path = `${this.folder}/${this.name}.module.ts`;
    const className = `${strings.classify(this.name)}Module`;
    if (!this.tree.exists(path)) {
      const names = [...new Set(this.operations.map(({ tag }) => tag))];
      const tags = names.map((name) => {
        const description = this.document.tags?.find((tag) => tag.name === name)?.description;
        return `{ name: ${render(name)}, description: ${render(description ?? `Operations on ${name}`)} }`;
      });
      await this.save(
        path,
        `import { Feature } from '../../platform/feature.decorator.js';\n\n` +
          `@Feature({\n  tag: ${tags.length === 1 ? tags[0] : `[${tags.join(',\n')}]`},\n  controllers: [],\n})\nexport class ${className} {}\n`,
      );
      const features = addElement(this.tree.readText(FEATURES_PATH), 'FEATURES', className);
      const modulePath = `./modules/${this.name}/${this.name}.module.js`;
      await this.save(FEATURES_PATH, addImport(features, className, modulePath));
    }
    const controllers = segments.map((segment) => {
      const controller = `${strings.classify(segment)}Controller`;
      return ['controllers', controller, `./${toFileName(segment)}.controller.js`] as const;
    });
    await this.register(controllers);
  }

  /** Writes the test of the contract, or updates its list of stubs. */
  private async writeTest(operations: readonly GeneratedOperation[]): Promise<void> {
    const path = `/test/${this.name}.contract.test.ts`;
    const initial = this.tree.exists(path) ? this.tree.readText(path) : renderTest(this.contract);
    const stubs = operations.filter(({ implementation }) => implementation === undefined);
    const hasList = initial.includes('const STUBS');
    const implemented = operations.filter(({ id }) => this.replaced.has(id));
    let text = hasList || stubs.length === 0 ? initial : addStubTest(initial);
    for (const { sample } of stubs) text = addElement(text, 'STUBS', sample);
    for (const { sample } of implemented) {
      // Its method and path; the formatting of a body may differ.
      const [start] = sample.replaceAll('"', "'").split(/(?<=^\['\w+', '[^']*')/);
      text = removeElement(text, 'STUBS', (element) =>
        element.replace(/^\[\s+/, '[').startsWith(start!),
      );
    }
    if (text !== initial || !this.tree.exists(path)) await this.save(path, text);
  }

  /** Renders a template of \`generate -- resource\` for a resource of the contract. */
  private render(file: string, resource: Resource, timestamp = 0): string {
    const { names, fields, has, key, className, bodyClass, patchClass } = resource;
    const values = createTemplateValues(names, fields, has, {
      pages: resource.hasPages,
      hasWholeList: resource.hasWholeList,
      ifMatch: false,
    });
    const own = [
      { name: bodyClass, isValue: values.merged.length > 0 },
      { name: patchClass, isValue: false },
    ].filter(({ name }, index, all) => all.findIndex((other) => other.name === name) === index);
    const { content } = applyContentTemplate({
      ...values,
      timestamp,
      migration: `Create${names.Items}${timestamp}`,
      // The body may have properties that the service ignores, such as the id.
      hasRow: true,
      created: 'row',
      notChanged: `notFound(${key.name})`,
      patchedDateTimes: values.dateTimes.filter(({ name }) => resource.patched.includes(name)),
      Body: bodyClass,
      Patch: patchClass,
      Filters: `Criteria<${className}Entity>`,
      key,
      showsId: resource.showsId,
      dtoImports: [
        ...own
          .filter(({ name }) => name !== className)
          .map(({ name, isValue }) => ({
            file: toFileName(name),
            imported: `${isValue ? '' : 'type '}${name}`,
          })),
        {
          file: names.itemName,
          imported: `${own.some(({ name, isValue }) => name === className && isValue) ? '' : 'type '}${className}, to${className}`,
        },
      ],
    })({ path: file as never, content: Buffer.from(aliasImports(readTemplate(file), names)) })!;
    return content.toString();
  }

  private async writeResource(resource: Resource): Promise<void> {
    const { names } = resource;
    const timestamp = nextTimestamp(this.tree);
    const migration = `${timestamp}-create-${names.name}`;
    await this.save(this.getEntityPath(resource), this.renderEntity(resource));
    await this.save(
      this.getServicePath(resource),
      this.render('__name__.service.ts.template', resource),
    );
    await this.save(
      `${this.folder}/migrations/${migration}.ts`,
      this.render('__timestamp__-create-__name__.ts.template', resource, timestamp),
    );
    await this.addConversion(resource);
    const path = this.getTestPath(resource);
    if (!this.tree.exists(path)) await this.save(path, renderResourceTest(resource));
    await this.register([
      ['entities', `${names.Item}Entity`, `./${names.itemName}.entity.js`],
      ['migrations', `Create${names.Items}${timestamp}`, `./migrations/${migration}.js`],
      ['providers', `${names.Items}Service`, `./${names.name}.service.js`],
    ]);
  }

  private renderEntity(resource: Resource): string {
    const classes = resource.properties.map(({ className }) => className);
    const imports = [...new Set(classes)]
      .map((name) => `import type { ${name} } from './${toFileName(name)}.dto.js';\n`)
      .join('');
    return imports + this.render('__itemName__.entity.ts.template', resource);
  }

  /** Adds the function that converts a row to the file of the class. */
  private async addConversion({ names, fields, showsId, className }: Resource): Promise<void> {
    const { item, Item, itemName } = names;
    const properties = fields
      .filter(({ writeOnly }) => !writeOnly)
      .map(({ name, toDto }) => `${name}: ${item}.${name}${toDto},`);
    const note = fields.some(({ optional, writeOnly }) => optional && !writeOnly)
      ? ': properties that were not given are omitted'
      : '';
    const path = this.getClassPath(className);
    await this.saveMissing(
      path,
      `import type { ${Item}Entity } from './${itemName}.entity.js';

/** Converts a row to the representation that clients see${note}. */
export function to${Item}(${item}: ${Item}Entity): ${Item} {
  return { ${showsId ? `id: ${item}.id, ` : ''}${properties.join(' ')} };
}
`,
    );
  }

  /** Adds the properties, and the methods of the service, that a resource lacks. */
  private async extendResource(resource: Resource, change: Change): Promise<void> {
    const { names, fields, properties, routes } = resource;
    const { Item, table } = names;
    const entityPath = this.getEntityPath(resource);
    const entity = this.tree.readText(entityPath);
    const entityClass = `${Item}Entity`;
    if (routes.some(({ id }) => change.addedIds.has(id))) await this.extendService(resource);
    const statements: { readonly up: string; readonly down: string }[] = [];
    const newFields: Field[] = [];
    let text = entity;
    for (const [index, field] of fields.entries()) {
      const { schema } = properties[index]!;
      const column = `${table}_${field.column}`;
      const isNew =
        change.properties.has(field.name) && !hasMember(entity, entityClass, field.name);
      if (!isNew && !hasMember(entity, entityClass, field.name)) continue;
      const pointer = `${this.storage.path.slice(1)}#/${resource.className}/${field.name}`;
      if (isNew) {
        if (!field.optional && !['string', 'number'].includes(typeof schema.default))
          throw new ContractError([
            `${pointer}: existing rows have no value: make it optional, or a string or number with a default.`,
          ]);
        statements.push({
          up: renderAddColumn(table, field, schema),
          down: `ALTER TABLE "${table}" DROP COLUMN "${field.column}"`,
        });
        await this.extendConversions(resource, field);
        newFields.push(withDefault(field));
      }
      // SQLite cannot drop the column of a foreign key, so the migration could not be reverted.
      if (field.references !== undefined && !entity.includes(`fk_${column}`))
        throw new ContractError([
          `${pointer}: the table exists without this foreign key: write a migration by hand.`,
        ]);
      const isIndexed = field.filter && (isNew || change.filters.has(field.name));
      for (const [name, isNeeded, unique, names_] of [
        [`uq_${column}`, field.unique, true, [field.name]],
        [`ix_${column}`, isIndexed && !field.unique, false, [field.name, 'id']],
      ] as const) {
        if (!isNeeded || entity.includes(`'${name}'`)) continue;
        const columns = names_.map((part) => (part === 'id' ? '"id"' : `"${field.column}"`));
        statements.push({
          up: `CREATE ${unique ? 'UNIQUE ' : ''}INDEX "${name}" ON "${table}" (${columns.join(', ')})`,
          down: `DROP INDEX "${name}"`,
        });
        text = decorateClass(
          text,
          entityClass,
          `@Index('${name}', [${names_.map((part) => `'${part}'`).join(', ')}]${unique ? ', { unique: true }' : ''})`,
        );
      }
    }
    await this.extendTest(resource, newFields, change.addedIds);
    if (statements.length === 0) return;
    await this.save(
      entityPath,
      addMissing(text, this.renderEntity({ ...resource, fields: newFields })),
    );
    await this.writeChange(resource, statements);
  }

  private async extendService(resource: Resource): Promise<void> {
    const path = this.getServicePath(resource);
    if (!this.tree.exists(path)) return;
    const text = this.tree.readText(path);
    const other = this.render('__name__.service.ts.template', resource);
    const extended = addMissing(text, other);
    if (extended !== text) await this.save(path, extended);
  }

  /** Adds a property to the functions that convert rows. */
  private async extendConversions(resource: Resource, field: Field): Promise<void> {
    const { names } = resource;
    const { item, Item } = names;
    const { name, toDto, optional, isDateTime } = field;
    const dtoPath = this.getClassPath(resource.className);
    const servicePath = this.getServicePath(resource);
    const value = isDateTime
      ? `${optional ? `typeof ${item}.${name} !== 'string' ? null : ` : ''}new Date(${item}.${name})`
      : `${item}.${name}${optional ? ' ?? null' : ''}`;
    for (const [path, isNeeded, functionName, text] of [
      [dtoPath, !field.writeOnly, `to${Item}`, `${item}.${name}${toDto}`],
      [servicePath, !field.readOnly, 'toRowValues', value],
    ] as const) {
      if (!isNeeded || !this.tree.exists(path)) continue;
      await this.save(
        path,
        addReturnedProperty(this.tree.readText(path), functionName, name, text),
      );
    }
  }

  /** Adds the new properties and operations to the test of a resource. */
  private async extendTest(
    resource: Resource,
    fields: readonly Field[],
    addedIds: ReadonlySet<string>,
  ): Promise<void> {
    const path = this.getTestPath(resource);
    if (!this.tree.exists(path)) return;
    const existing = this.tree.readText(path);
    const sent = fields.filter(({ readOnly }) => !readOnly);
    const text = sent.reduce(
      (rest, { name, sample, otherSample }) =>
        addReturnedProperty(
          addReturnedProperty(rest, 'sampleBody', name, sample),
          'otherBody',
          name,
          otherSample,
        ),
      existing,
    );
    const routes = resource.routes.filter(({ id }) => addedIds.has(id));
    const added = renderRouteTests(resource, routes);
    if (text !== existing || added !== '') await this.save(path, `${text}\n${added}`);
  }

  /** Writes a migration, and registers it. */
  private async writeChange(
    { names }: Resource,
    statements: readonly { readonly up: string; readonly down: string }[],
  ): Promise<void> {
    const timestamp = nextTimestamp(this.tree);
    const name = `Change${names.Items}${timestamp}`;
    const file = `${timestamp}-change-${names.name}`;
    await this.save(
      `${this.folder}/migrations/${file}.ts`,
      `import type { MigrationInterface, QueryRunner } from 'typeorm';

export class ${name} implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    ${toCalls(statements.map(({ up }) => up))}
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    ${toCalls(statements.map(({ down }) => down).toReversed())}
  }
}
`,
    );
    await this.register([['migrations', name, `./migrations/${file}.js`]]);
  }

  /** Adds elements to the \`@Feature\` of the module. */
  private async register(
    elements: readonly (readonly [property: string, element: string, path: string])[],
  ): Promise<void> {
    const path = `${this.folder}/${this.name}.module.ts`;
    const text = elements.reduce(
      (rest, [property, element, from_]) =>
        addImport(addElement(rest, property, element), element, from_),
      this.tree.readText(path),
    );
    await this.save(path, text);
  }

  /** Writes a file, or adds what an existing one lacks. */
  private async saveMissing(path: string, text: string): Promise<void> {
    if (!this.tree.exists(path)) return this.save(path, text);
    const existing = this.tree.readText(path);
    const extended = addMissing(existing, text);
    if (extended !== existing) await this.save(path, extended);
  }

  private async save(path: string, text: string): Promise<void> {
    const hasSurplusImports =
      /\.(dto|controller|entity|service|databases\.test)\.ts$|-create-/.test(path);
    const organized = hasSurplusImports ? organizeImports(text) : text;
    const formatted = await formatSource(this.tree, organized);
    if (this.tree.exists(path)) this.tree.overwrite(path, formatted);
    else this.tree.create(path, formatted);
  }
}

/** Renders the statements of a migration. */
const toCalls = (lines: readonly string[]): string =>
  lines.map((sql) => `await queryRunner.query(${render(sql)});`).join('\n');

/** What a contract has added to a resource. */
interface Change {
  readonly properties: ReadonlySet<string>;
  readonly filters: ReadonlySet<string>;
  /** The ids of the new operations. */
  readonly addedIds: ReadonlySet<string>;
}

/** An operation of a controller of the module. */
interface OwnOperation extends ParsedOperation {
  readonly file: string;
}

/** The operations below one segment of a path share a controller. */
const getSegment = ({ path }: GeneratedOperation): string => path.split('/')[0]!;

/** Returns the tag of the class in the source of a controller. */
function getClassTag(text: string): string | undefined {
  return /^@(?:Nest)?ApiTags\(["'](.+)["']\)$/m.exec(text)?.[1];
}

const renderTest = (contract: string): string => `
import type { OpenAPIObject } from '@nestjs/swagger';
import { compareWithContract } from '../tools/openapi/contract-check.js';
import { readContract } from '../tools/openapi/contract.js';
import type { OpenApiDocument } from '../tools/openapi/openapi.js';
import { startApp, type TestApp } from './support/app.js';
import { jsonHeaders, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

describe(${render(contract)}, () => {
  it('is what the OpenAPI document of the service says', async () => {
    const response = await sendRequest(\`\${app.url}/openapi.json\`);
    const document = response.json<OpenAPIObject>() as unknown as OpenApiDocument;
    expect(compareWithContract(await readContract(${render(contract)}), document)).toEqual([]);
  });
});
`;

/** Adds the test of the stubs to that of the contract. */
function addStubTest(text: string): string {
  const end = text.lastIndexOf('});');
  return `${text.slice(0, end)}
  it('declares operations that return 501 until they are implemented', async () => {
    for (const [method, path, body] of STUBS) {
      const headers = {
        ...jsonHeaders(app.key),
        ...(Buffer.isBuffer(body) ? { 'content-type': 'application/octet-stream' } : {}),
      };
      const response = await sendRequest(app.url + path, {
        method,
        headers,
        ...(body === undefined ? {} : { body: Buffer.isBuffer(body) ? body : JSON.stringify(body) }),
      });
      expect({ method, path, status: response.status }).toEqual({ method, path, status: 501 });
      expect(response).toBeError('NOT_IMPLEMENTED', 'Not implemented.');
    }
  });
${text.slice(end)}`.replace('let app: TestApp;', `${STUBS}\nlet app: TestApp;`);
}

const STUBS = `
/** A valid request for each operation that is not implemented yet. Remove those that you implement. */
const STUBS: readonly (readonly [method: string, path: string, body?: object])[] = [];
`;
