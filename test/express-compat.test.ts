import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Express, Request, Response } from 'express';
import { Feature } from '../src/platform/feature.decorator.js';
import { startApp } from './support/app.js';

/** Uses the parts of Express's requests and responses that the service itself does not. */
@ApiTags('express')
@Controller('express')
class ExpressController {
  @Get()
  @ApiOperation({ operationId: 'useExpress', summary: 'Use Express' })
  use(@Req() request: Request, @Res() response: Response): void {
    const { ip, hostname, path, protocol } = request;
    const app = request.app as Express;
    // What Express does with every request and response changes nothing.
    const isUnchanged =
      Object.getPrototypeOf(request) === app.request &&
      Object.getPrototypeOf(response) === app.response;
    const body = { ip, hostname, path, protocol, isUnchanged };
    response.cookie('a', 'b').vary('Origin').location('/there').status(202).send(body);
  }
}

@Feature({ tag: { name: 'express', description: '' }, controllers: [ExpressController] })
class ExpressModule {}

describe('the API of Express', () => {
  it('works on requests and responses that are created with its prototypes', async () => {
    const app = await startApp({ features: [ExpressModule] });
    const response = await app.send('GET', '/v1/express');
    await app.stop();
    expect(response.status).toBe(202);
    expect(response.headers).toMatchObject({ 'set-cookie': ['a=b; Path=/'], vary: 'Origin' });
    const request = { ip: '127.0.0.1', hostname: '127.0.0.1', path: '/v1/express' };
    expect(response.json()).toEqual({ ...request, protocol: 'http', isUnchanged: true });
  });
});
