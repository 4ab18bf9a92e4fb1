import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RawConnection, rawRequest } from '../support/raw-connection.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

let services: Services;
afterEach(() => services.close());

/** Sends a signal while the body of a create request is incomplete, and returns what completes it. */
async function shutDownDuringCreate(
  { service, url }: RunningService,
  signal: NodeJS.Signals,
): Promise<() => Promise<number[]>> {
  const headers = [
    `Authorization: Bearer ${BOOTSTRAP_KEY}`,
    'Content-Type: application/json',
    'Content-Length: 14',
  ];
  const connection = (await RawConnection.open(url)).send(rawRequest({ target: '/livez' }));
  // A response proves that the service has accepted the connection.
  await connection.nextResponse();
  connection.send(rawRequest({ method: 'POST', headers }));
  await connection.flushed();
  service.kill(signal);
  await waitFor(
    () => service.output,
    (output) => output.includes(`Received ${signal}, shutting down`),
  );
  return async () => (await connection.send('{"name":"dog"}').closed()).map(({ status }) => status);
}

describe('a service process that receives a second signal during a graceful shutdown', () => {
  beforeEach(async () => {
    services = await createServices();
  });

  it.each<[NodeJS.Signals, NodeJS.Signals]>([
    ['SIGTERM', 'SIGTERM'],
    ['SIGINT', 'SIGINT'],
    ['SIGHUP', 'SIGTERM'],
    ['SIGTERM', 'SIGHUP'],
  ])('completes the requests in flight: %s, %s', async (first, second) => {
    const running = await services.serve();
    const complete = await shutDownDuringCreate(running, first);
    running.service.kill(second);
    expect(await complete()).toEqual([200, 201]);
    expect(await running.service.exited).toEqual({ code: 0, signal: null });
    expect(running.service.output.match(/Received/g)).toHaveLength(1);
  });

  it.each([
    ['is replaced by the service', 'exec'],
    ['starts the service', 'true &&'],
  ])(
    'completes the requests in flight if its group receives it, and npm passes it on to a shell that %s',
    async (_name, start) => {
      const text = JSON.stringify({ scripts: { start } });
      await writeFile(join(services.directory, 'package.json'), text);
      const execPrefix = ['npm', 'start', '--no-update-notifier', '--'];
      const running = await services.serve({ execPrefix, group: true });
      const complete = await shutDownDuringCreate(running, 'SIGTERM');
      expect(await complete()).toEqual([200, 201]);
      await running.service.exited;
      expect(running.service.output).toContain('Shutdown complete');
    },
  );
});
