/** Does what `docker build` does with the instructions of our Dockerfile, in directories instead of images. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { basename, delimiter, join, relative } from 'node:path';
import { promisify } from 'node:util';
import dockerignore from '@balena/dockerignore';
import {
  type Copy,
  DockerfileParser,
  type From,
  type Instruction,
  type JSONInstruction,
  type PropertyInstruction,
} from 'dockerfile-ast';

/** Any user that is not root. */
const NOBODY = 65_534;

/** An image: a directory for its root, and what its instructions say of running it. */
export class Image {
  env: Record<string, string> = {};
  workdir = '/';
  user = 'root';
  cmd: string[] = [];
  healthcheck: string[] = [];

  constructor(readonly root: string) {}

  /** Where a path of the image is in reality. */
  at(path: string): string {
    return join(this.root, path.startsWith('/') ? path : join(this.workdir, path));
  }

  /** How to run a command in it: where, as whom, with what in its environment. */
  options(env: Record<string, string> = {}): {
    cwd: string;
    env: Record<string, string>;
    uid?: number;
    gid?: number;
  } {
    return {
      cwd: this.at('.'),
      env: { PATH: cleanPath(), ...this.env, ...env },
      // Only root can become somebody else; whoever is not root runs it as what they are.
      ...(this.user !== 'root' && process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}),
    };
  }
}

/**
 * Builds the last stage of a Dockerfile.
 *
 * @param context the directory that COPY takes files from, but for those of its `.dockerignore`
 * @param output an empty directory; each stage gets one of its own in it
 * @throws {Error} where a step fails, or an instruction is not known here
 */
export async function buildImage(context: string, output: string): Promise<Image> {
  const stages = new Map<string, Image>();
  let image: Image | undefined;
  const dockerfile = DockerfileParser.parse(await readFile(join(context, 'Dockerfile'), 'utf8'));
  for (const instruction of dockerfile.getInstructions()) {
    const keyword = instruction.getKeyword();
    if (keyword === 'FROM') {
      const name = (instruction as From).getBuildStage() ?? String(stages.size);
      image = new Image(join(output, name));
      await mkdir(image.root);
      stages.set(name, image);
    } else if (image !== undefined) {
      await apply(instruction, image, stages, context);
    } else if (keyword !== 'ARG') {
      throw new Error(`${keyword} stands before FROM`);
    }
  }
  if (image === undefined) throw new Error('The Dockerfile has no FROM');
  return image;
}

async function apply(
  instruction: Instruction,
  image: Image,
  stages: ReadonlyMap<string, Image>,
  context: string,
): Promise<void> {
  const text = instruction.getArgumentsContent() ?? '';
  switch (instruction.getKeyword()) {
    case 'WORKDIR':
      image.workdir = join('/', image.workdir, text);
      await mkdir(image.at('.'), { recursive: true });
      break;
    case 'ENV':
      for (const property of (instruction as PropertyInstruction).getProperties()) {
        image.env[property.getName()] = property.getValue() ?? '';
      }
      break;
    case 'USER':
      image.user = text;
      break;
    case 'RUN':
      await run(text, image);
      break;
    case 'COPY':
      await copy(instruction as Copy, image, stages, context);
      break;
    case 'CMD':
      image.cmd = stringsOf(instruction);
      break;
    case 'HEALTHCHECK':
      image.healthcheck = JSON.parse(text.slice(text.indexOf('CMD') + 3)) as string[];
      break;
    case 'EXPOSE':
    case 'VOLUME':
      break;
    default:
      throw new Error(`${instruction.getKeyword()} is not known here`);
  }
}

async function run(command: string, image: Image): Promise<void> {
  // What npm and Jest have set is about this process; what is about the registry stays.
  const inherited = Object.entries(process.env).filter(
    ([name]) =>
      !/^(npm_(?!config_(registry|cache|userconfig|cafile)$)|INIT_CWD|NODE_(?!EXTRA))/.test(name),
  );
  const env = { ...Object.fromEntries(inherited), PATH: cleanPath(), ...image.env };
  try {
    await promisify(execFile)('/bin/sh', ['-c', command], {
      cwd: image.at('.'),
      env,
      maxBuffer: 64 * 1024 ** 2,
    });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`RUN ${command} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

async function copy(
  instruction: Copy,
  image: Image,
  stages: ReadonlyMap<string, Image>,
  context: string,
): Promise<void> {
  // Not `getFromFlag`, which knows it only as the first flag.
  const flag = (name: string): string | null | undefined =>
    instruction
      .getFlags()
      .find((candidate) => candidate.getName() === name)
      ?.getValue();
  const stage = flag('from');
  const root = stage == null ? context : stages.get(stage)!.root;
  const ignored = dockerignore
    .default()
    .add(stage == null ? await readFile(join(context, '.dockerignore'), 'utf8') : '');
  const paths = instruction.getArguments().map((argument) => argument.getValue());
  const target = paths.pop()!;
  for (const path of paths) {
    const from = join(root, path);
    const name = relative(root, from);
    if (!existsSync(from) || (stage == null && ignored.ignores(name))) {
      throw new Error(`COPY ${path}: there is no such file`);
    }
    const intoDirectory = paths.length > 1 || target.endsWith('/');
    const to =
      intoDirectory && (await stat(from)).isFile()
        ? join(image.at(target), basename(path))
        : image.at(target);
    await cp(from, to, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (file) => stage != null || !ignored.ignores(relative(root, file)),
    });
    if (flag('chown') === 'node:node' && process.getuid?.() === 0) {
      spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, to]);
    }
  }
}

function stringsOf(instruction: Instruction): string[] {
  return (instruction as JSONInstruction).getJSONStrings().map((text) => text.getJSONValue());
}

/** Without the tools of this project, which an image does not have. */
function cleanPath(): string {
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  return directories.filter((path) => !path.includes('node_modules')).join(delimiter);
}

/** Every file below a directory, by its path from there. */
export async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => relative(directory, join(parentPath, name)));
}
