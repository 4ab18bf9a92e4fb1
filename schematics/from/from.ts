import { relative, resolve as resolvePath } from 'node:path';
import { type Rule, SchematicsException, strings, type Tree } from '@angular-devkit/schematics';
import { FEATURES_PATH } from '../resource/record.js';
import { isAmbiguous } from '../resource/resource.js';
import {
  addElement,
  addImport,
  formatSource,
  organizeImports,
  parseControllers,
} from '../resource/source.js';
import { Classes, ERROR_CLASS, render, toFileName } from './classes.js';
import { ContractError, readContract } from './contract.js';
import type { OpenApiDocument } from './openapi.js';
import { type GeneratedOperation, writeOperations } from './operations.js';
import { GENERATOR_RULES } from './rules.js';

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
import { Public } from '${PLATFORM}/auth/public.decorator.js';
import { ApiError } from '${PLATFORM}/errors/api-error.js';
import { BinaryBody } from '${PLATFORM}/http/body/binary-body.decorator.js';
import { ${ERROR_CLASS} } from '${PLATFORM}/http/responses/error-body.dto.js';
import { IdParam } from '${PLATFORM}/http/validation/id-param.decorator.js';
`;
const CLASS_IMPORTS = `
import { ApiSchema } from '@nestjs/swagger';
import { ${ERROR_CLASS} } from '${PLATFORM}/http/responses/error-body.dto.js';
import { ArrayProperty, BooleanProperty, DateProperty, DateTimeProperty, EnumProperty, IntegerProperty, MapProperty, NumberProperty, ObjectProperty, StringProperty, UriProperty, UuidProperty } from '${PLATFORM}/http/validation/property.decorators.js';
`;

/**
 * Generates a module of a published OpenAPI document: the DTOs of its schemas, and its operations as stubs
 * that return 501. Run again, it adds what the document has and the module lacks, and changes nothing else.
 */
export function from({ contract, module }: Options): Rule {
  return async (tree) => {
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

  constructor(
    private readonly tree: Tree,
    private readonly document: OpenApiDocument,
    private readonly contract: string,
    private readonly name: string,
  ) {
    this.classes = new Classes(document);
    this.operations = writeOperations(document, this.classes, name);
    this.folder = `/src/modules/${name}`;
  }

  async write(): Promise<void> {
    this.checkClasses();
    const added = this.findNewOperations();
    for (const { name, text, uses } of this.classes.generated.values()) {
      const path = this.getClassPath(name);
      if (!this.tree.exists(path))
        await this.save(path, `${CLASS_IMPORTS}${this.importClasses(uses)}\n${text}`);
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

  /**
   * Returns the operations that the module lacks.
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
        if (operation === undefined) continue;
        const isOwn = file.startsWith(`${this.folder}/`) && operation.path === route.path;
        if (isOwn && new RegExp(`operationId: ["']${operation.id}["']`).test(route.text))
          existing.add(operation.id);
        else {
          problems.push(
            `${operation.pointer}: ${route.method} /v1/${route.path} exists in ${file.slice(1)}, and matches the same requests.`,
          );
        }
      }
    });
    if (problems.length > 0) throw new ContractError(problems);
    return this.operations.filter(({ id }) => !existing.has(id));
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
    const existing = this.tree.exists(path) ? this.tree.readText(path) : undefined;
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
      await this.save(path, `${imports}${existing.slice(0, end)}\n${methods.join('\n\n')}\n}\n`);
      return;
    }
    const tag = classTag === undefined ? '' : `@ApiTags(${render(classTag)})\n`;
    await this.save(
      path,
      `${imports}\n${tag}@Controller(${render(segment)})\nexport class ${name} {\n${methods.join('\n\n')}\n}\n`,
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
    let text = this.tree.readText(path);
    for (const segment of segments) {
      const controller = `${strings.classify(segment)}Controller`;
      text = addElement(text, 'controllers', controller);
      text = addImport(text, controller, `./${toFileName(segment)}.controller.js`);
    }
    if (text !== this.tree.readText(path)) await this.save(path, text);
  }

  /** Writes the test of the contract, or adds the operations to its list. */
  private async writeTest(operations: readonly GeneratedOperation[]): Promise<void> {
    const path = `/test/${this.name}.contract.test.ts`;
    const initial = this.tree.exists(path) ? this.tree.readText(path) : renderTest(this.contract);
    const text = operations.reduce(
      (rest, { sample }) => addElement(rest, 'STUBS', sample),
      initial,
    );
    await this.save(path, text);
  }

  private async save(path: string, text: string): Promise<void> {
    const isClassOrController = /\.(dto|controller)\.ts$/.test(path);
    const organized = isClassOrController ? organizeImports(text) : text;
    const formatted = await formatSource(this.tree, organized);
    if (this.tree.exists(path)) this.tree.overwrite(path, formatted);
    else this.tree.create(path, formatted);
  }
}

/** The operations below one segment of a path share a controller. */
const getSegment = ({ path }: GeneratedOperation): string => path.split('/')[0]!;

/** Returns the tag of the class in the source of a controller. */
function getClassTag(text: string): string | undefined {
  return /^@(?:Nest)?ApiTags\(["'](.+)["']\)$/m.exec(text)?.[1];
}

const renderTest = (contract: string): string => `
import type { OpenAPIObject } from '@nestjs/swagger';
import { compareWithContract } from '../conformance/contract-check.js';
import { readContract } from '../schematics/from/contract.js';
import type { OpenApiDocument } from '../schematics/from/openapi.js';
import { startApp, type TestApp } from './support/app.js';
import { jsonHeaders, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

/** A valid request for each operation that is not implemented yet. Remove those that you implement. */
const STUBS: readonly (readonly [method: string, path: string, body?: object])[] = [];

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
});
`;
