/** The upper bound of lists: plain node:http, one route, and the complete response in memory. */
import { createServer } from 'node:http';
import { constantList, defaultHeaders, isAuthorized, port } from './shared.js';

createServer((request, response) => {
  if (!isAuthorized(request.headers.authorization)) {
    response.writeHead(401, defaultHeaders()).end();
    return;
  }
  response.writeHead(200, { ...defaultHeaders(), ...constantList.headers }).end(constantList.body);
}).listen(port, '127.0.0.1');
