/**
 * Plans the modules of documents that frameworks emit, and compares the results with those that teams received before.
 * Six of them are generated and used as a client does.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
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
import { driveContract } from '../../../../test/platform/support/contract-driver.js';
import { download, PACKAGE } from '../../../corpus/documents.js';
import { requires } from '../../../../test/platform/support/requirements.js';
import { BOOTSTRAP_KEY } from '../../../../test/platform/support/service-process.js';
import { readDocument } from '../../read/document.js';
import { getResults, toModule } from '../excerpts.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

const PYTHON = '/usr/bin/python3';
const CONTRACTS = join(import.meta.dirname, '../../../../../shared/contracts');

/** The providers of some public documents that Django, springdoc, Swashbuckle, FastAPI and springfox emitted. */
const PROVIDERS =
  'nordigen.com anchore.io billbee.io smart-me.com elevenlabs.io openstates.org visagecloud.com ebi.ac.uk';

const directory = await mkdtemp(join(tmpdir(), 'petstore-documents-'));
afterAll(() => rm(directory, { recursive: true }));

const api = ((): string | undefined => {
  try {
    return download(directory);
  } catch {
    return undefined;
  }
})();
const isDownloaded = api !== undefined;
const downloaded = requires(`${PACKAGE} from the registry`, isDownloaded);

/** The results of a document, by method and path. A line that changes needs its reason in the commit. */
const plan = async (path: string): Promise<Record<string, string>> =>
  getResults(toModule((await readDocument(path)).root));

const toPath = (provider: string): string => join(api!, `${provider}.json`);
const NEST = join(directory, 'nest.json');
const SHOP = join(directory, 'shop.json');

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

const hasFastapi = spawnSync(PYTHON, ['-c', 'import fastapi']).status === 0;
const fastapi = requires('python3-fastapi', hasFastapi);
const published = requires(CONTRACTS, existsSync(CONTRACTS));

beforeAll(async () => {
  const app = await NestFactory.create(PetsModule, { logger: false });
  const document = SwaggerModule.createDocument(app, new DocumentBuilder().build());
  await app.close();
  await writeFile(NEST, JSON.stringify(document));
  const file = join(import.meta.dirname, 'documents', 'shop.py');
  if (hasFastapi) await writeFile(SHOP, execFileSync(PYTHON, [file]));
});

it('the module of a document that Nest emits has the operations of before', async () => {
  expect(await plan(NEST)).toMatchSnapshot();
});

fastapi.describe('the module of a document that FastAPI emits', () => {
  it('has the operations of before', async () => {
    expect(await plan(SHOP)).toMatchSnapshot();
  });
});

downloaded.describe('the module of a public document', () => {
  it.each(PROVIDERS.split(' '))('implements what it did before: %s', async (provider) => {
    const results = Object.entries(await plan(toPath(provider)));
    const implemented = results.filter(([, result]) => result.startsWith('implemented'));
    expect({
      implemented: Object.fromEntries(implemented),
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

requires(`python3-fastapi and ${PACKAGE}`, hasFastapi && isDownloaded).describe(
  'the modules of six documents',
  () => {
    const contracts: Readonly<Record<string, string>> = {
      nest: NEST,
      shop: SHOP,
      nordigen: join(directory, 'nordigen.json'),
      anchore: join(directory, 'anchore.json'),
      billbee: join(directory, 'billbee.json'),
      'smart-me': join(directory, 'smart-me.json'),
    };
    const implemented: Record<string, string[]> = {};
    let guide: Guide;
    beforeAll(async () => {
      for (const provider of PROVIDERS.split(' ').slice(0, 4)) {
        const [name] = provider.split('.');
        await copyFile(toPath(provider), contracts[name!]!);
      }
      guide = await Guide.create();
      await guide.npm('build:tools');
      for (const [name, file] of Object.entries(contracts)) {
        const report = await guide.generateAgain(file);
        implemented[name] = [...report.matchAll(/^(\S+ \S+) +implemented/gm)].map(
          ([, operation]) => operation!,
        );
      }
    });
    afterAll(() => guide.copy.remove());

    it('pass every check, and their tests on both databases', async () => {
      const tests = Object.keys(contracts).map((name) => `/test/${name}\\.`);
      tests.push('/test/migrations', '/test/openapi');
      expect(await guide.check(contracts, tests)).toEqual([]);
    });

    it('stay as they are if the generator runs again', async () => {
      for (const file of Object.values(contracts))
        expect(await guide.generateAgain(file)).toContain('Nothing to write.');
    });

    it.each(['sqlite', 'postgres'] as const)('do on %s what each operation says', async (type) => {
      const { url, close } = await guide.serve(type);
      try {
        for (const [name, file] of Object.entries(contracts)) {
          const { differences, requested } = await driveContract(file, `${url}/v1`, BOOTSTRAP_KEY);
          expect([name, differences]).toEqual([name, []]);
          expect(requested).not.toEqual([]);
          expect(requested.toSorted()).toEqual(implemented[name]!.toSorted());
        }
      } finally {
        await close();
      }
    });
  },
);
