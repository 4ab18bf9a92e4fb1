/** `node dist/cli/health.js`: checks a running service, for images without curl. */
import '../platform/application/check-node-version.js';
import { Command } from 'commander';
import { loadConfig } from '../platform/config/config.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

/** How long the service may take to respond, in milliseconds. */
const TIMEOUT_MS = 4_000;

export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('health')
    .description('Check that the service on this machine responds')
    .option('--ready', 'Check /readyz, which includes the database, instead of /livez')
    .action(checkHealth);
  await runCommand(program, args);
}

async function checkHealth({ ready = false }: { ready?: boolean }): Promise<void> {
  const { host, port } = loadConfig(PRODUCT);
  const address = host.includes(':') ? `[${host}]` : host;
  const url = `http://${address}:${port}/${ready ? 'readyz' : 'livez'}`;
  const { status } = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (status !== 200) throw new Error(`${url} responds with ${status}.`);
}

if (isMain(import.meta)) await main(process.argv.slice(2));
