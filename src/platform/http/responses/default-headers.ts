import type { RequestHandler } from 'express';
import type { Config } from '../../config/config.js';

/** Returns the headers that every response has by default. JSON may load nothing, and must not be framed or sniffed. */
export function defaultHeaders(config: Config): Readonly<Record<string, string>> {
  return {
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
    // RFC 6797: a year, in seconds.
    ...(isHttps(config) && { 'Strict-Transport-Security': 'max-age=31536000' }),
  };
}

/** Sets the security headers of Swagger UI: it loads its own files and calls the servers of the OpenAPI document. */
export function swaggerUiHeaders(config: Config): RequestHandler {
  const servers = [config.publicBaseUrl, config.stagingBaseUrl].filter((url) => url !== undefined);
  const origins = new Set(servers.map((url) => new URL(url).origin));
  const headers = new Map([
    [
      'Content-Security-Policy',
      [
        "default-src 'none'",
        "script-src 'self'",
        // The page of @nestjs/swagger has two style elements and a style attribute.
        "style-src 'self' 'unsafe-inline'",
        // The style sheet of Swagger UI contains icons as data URLs.
        "img-src 'self' data:",
        "font-src 'self' data:",
        ["connect-src 'self'", ...origins].join(' '),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ].join(';'),
    ],
    ['Cross-Origin-Resource-Policy', 'same-origin'],
    ['Referrer-Policy', 'no-referrer'],
    ['X-Frame-Options', 'DENY'],
  ]);
  // Over HTTP browsers ignore these two and warn on the console.
  if (isHttps(config))
    headers.set('Cross-Origin-Opener-Policy', 'same-origin').set('Origin-Agent-Cluster', '?1');
  return (_request, response, next) => {
    response.setHeaders(headers);
    next();
  };
}

/** HSTS is invalid over HTTP (RFC 6797, section 7.2). The proxy terminates TLS, so the public URL decides. */
const isHttps = ({ publicBaseUrl }: Config): boolean =>
  publicBaseUrl?.startsWith('https:') ?? false;
