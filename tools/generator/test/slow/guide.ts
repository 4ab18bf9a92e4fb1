/** Runs the guide in a copy of the project that is a git repository. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type CopyResult, ProjectCopy } from '../../../../test/support/project-copy.js';
import { addImports } from '../../write/imports.js';

/** What the code of the guide uses, and generated code does not. */
const DECLARATIONS = {
  ApiTags: '@nestjs/swagger',
  TableForeignKey: 'typeorm',
  TableIndex: 'typeorm',
  TableUnique: 'typeorm',
  toConstraintError: 'src/platform/database/statements/constraint-error.js',
  FeatureErrorCode: 'type src/platform/errors/error-codes.js',
  transactionOnce: 'src/platform/idempotency/idempotency-records.js',
  insertReturning: 'src/platform/resource/returning.js',
  updateReturning: 'src/platform/resource/returning.js',
  Category: 'type test/support/http-client.js',
  jsonHeaders: 'test/support/http-client.js',
  sendRequest: 'test/support/http-client.js',
  PetEntity: 'src/modules/pets/pet.entity.js',
  NewPet: 'src/modules/pets/pets.api.gen.js',
  Pet: 'src/modules/pets/pets.api.gen.js',
  toPet: 'src/modules/pets/pets.service.js',
  Supplier: 'src/modules/suppliers/entities/supplier.entity.js',
  CreateSuppliers1796000000000:
    'src/modules/suppliers/migrations/1796000000000-create-suppliers.js',
  SuppliersController: 'src/modules/suppliers/suppliers.controller.js',
  SuppliersService: 'src/modules/suppliers/suppliers.service.js',
  CreateSupplierDto: 'type src/modules/suppliers/dto/create-supplier.dto.js',
  UpdateSupplierDto: 'type src/modules/suppliers/dto/update-supplier.dto.js',
};

/** docs/adding-a-module.md, and the project that it is carried out in. */
export class Guide {
  private constructor(
    readonly copy: ProjectCopy,
    private readonly text: string,
  ) {}

  static async create(): Promise<Guide> {
    const copy = await ProjectCopy.create();
    const guide = new Guide(copy, await readFile(copy.resolve('docs/adding-a-module.md'), 'utf8'));
    await guide.git('init', '--quiet', '--initial-branch=main');
    await guide.commit('Initial state');
    return guide;
  }

  readonly git = (...args: string[]): Promise<string> => succeed(this.copy.git(...args));
  readonly npm = (...args: string[]): Promise<string> => succeed(this.copy.npm(...args));

  async commit(message: string): Promise<void> {
    await this.git('add', '--all');
    await this.git('commit', '--quiet', '--message', message);
  }

  /** Returns the only code block that contains a text. */
  getBlock(language: 'sh' | 'ts', text: string): string {
    const blocks = [...this.text.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
    const [found, ...others] = blocks.filter(
      ([, name, code]) => name === language && code!.includes(text),
    );
    if (found === undefined || others.length > 0)
      throw new Error(`The guide must have one block with: ${text}`);
    return found[2]!;
  }

  /** Runs the commands of a block, or only the first ones, and returns their output. */
  async runBlock(text: string, count = Infinity): Promise<string> {
    const commands = this.getBlock('sh', text).split(/(?<!\\)\n/);
    return succeed(this.copy.run('sh', ['-ec', commands.slice(0, count).join('\n')]));
  }

  /** Writes a file: code, or a block of the guide, with the imports that an editor adds. */
  writeCode(path: string, code: string): Promise<void> {
    return this.write(path, addImports(path, code, DECLARATIONS));
  }

  writeBlock(path: string, text: string): Promise<void> {
    return this.writeCode(path, this.getBlock('ts', text));
  }

  async write(path: string, code: string): Promise<void> {
    await mkdir(dirname(this.copy.resolve(path)), { recursive: true });
    await writeFile(this.copy.resolve(path), code);
  }

  /** Replaces texts of a file, all of which must exist. */
  async edit(path: string, replacements: Readonly<Record<string, string>>): Promise<void> {
    let code = await readFile(this.copy.resolve(path), 'utf8');
    for (const [before, after] of Object.entries(replacements)) {
      if (!code.includes(before)) throw new Error(`${path} lacks ${before}:\n${code}`);
      code = code.replaceAll(before, () => after);
    }
    await writeFile(this.copy.resolve(path), code);
  }
}

/**
 * @returns the output of a command
 * @throws {Error} if the command fails
 */
export async function succeed(command: Promise<CopyResult>): Promise<string> {
  const { failed, output } = await command;
  if (failed) throw new Error(output);
  return output;
}
