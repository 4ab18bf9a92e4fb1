import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Controller, Get, StreamableFile } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Feature } from '../../../src/platform/index.js';
import { useApp } from '../support/app.js';
import { waitFor } from '../support/wait.js';

const REQUESTS = 20;
/** More than the buffers of a connection hold. */
const BYTES = 16 * 1024 * 1024;
let handled = 0;

@ApiExcludeController()
@Controller('images')
class ImagesController {
  @Get()
  read(): StreamableFile {
    handled++;
    return new StreamableFile(Buffer.alloc(BYTES, handled));
  }
}

@Feature({ tag: { name: 'images', description: 'Images' }, controllers: [ImagesController] })
class ImagesModule {}

const app = useApp({ features: [ImagesModule] });

describe('pipelined requests', () => {
  it('wait for one another, so that unread responses do not fill the memory', async () => {
    const client = connect(Number(new URL(app.url).port), '127.0.0.1').pause();
    await once(client, 'connect');
    const head = `GET /v1/images HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${app.key}\r\n\r\n`;
    client.write(head.repeat(REQUESTS));
    await waitFor(() => handled > 0);
    await delay(500);
    expect(handled).toBe(1);
    let bytes = 0;
    client.on('data', (chunk) => (bytes += chunk.length)).resume();
    await waitFor(() => bytes > REQUESTS * BYTES);
    expect(handled).toBe(REQUESTS);
    client.destroy();
  });
});
