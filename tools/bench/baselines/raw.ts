/** The upper bound of lists: plain node:http, one route, and the complete response in memory. */
import { createServer } from 'node:http';
import { createList } from '../categories.js';
import { defaultHeaders, isAuthorized, port, toListResponse } from './shared.js';

const list = toListResponse(JSON.stringify(createList(100)));

createServer((request, response) => {
  if (isAuthorized(request.headers.authorization))
    response.writeHead(200, { ...defaultHeaders(), ...list.headers }).end(list.body);
  else response.writeHead(401, defaultHeaders()).end();
}).listen(port, '127.0.0.1');
