import type { RequestHandler } from 'express';
import helmet from 'helmet';
import type { Config } from '../../config/config.js';

/** How long a browser uses HTTPS only (RFC 6797), in seconds: a year. */
const HSTS_MAX_AGE = 31_536_000;

/**
 * Returns the headers that every response has by default. JSON is not a page, so it may load nothing and
 * must not be framed or sniffed. HSTS is invalid over HTTP (RFC 6797, section 7.2), which the proxy
 * terminates, so the public URL decides.
 */
export function defaultHeaders(
  config: Pick<Config, 'publicBaseUrl'>,
): Readonly<Record<string, string>> {
  return {
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
    ...(isHttps(config) && { 'Strict-Transport-Security': `max-age=${HSTS_MAX_AGE}` }),
  };
}

/** The security headers of Swagger UI: it loads its own files and calls the servers of the OpenAPI document. */
export function swaggerUiHeaders(config: Config): RequestHandler {
  const { publicBaseUrl, stagingBaseUrl } = config;
  return helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        // The page of @nestjs/swagger has two style elements and a style attribute.
        styleSrc: ["'self'", "'unsafe-inline'"],
        // The style sheet of Swagger UI contains icons as data URLs.
        imgSrc: ["'self'", 'data:'],
        fontSrc: ["'self'", 'data:'],
        connectSrc: [
          "'self'",
          ...new Set(
            [publicBaseUrl, stagingBaseUrl]
              .filter((url) => url !== undefined)
              .map((url) => new URL(url).origin),
          ),
        ],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    strictTransportSecurity: isHttps(config) && {
      maxAge: HSTS_MAX_AGE,
      includeSubDomains: false,
    },
    // Over HTTP browsers ignore these two and warn on the console.
    crossOriginOpenerPolicy: isHttps(config),
    originAgentCluster: isHttps(config),
    referrerPolicy: { policy: 'no-referrer' },
    xFrameOptions: { action: 'deny' },
  });
}

function isHttps({ publicBaseUrl }: Pick<Config, 'publicBaseUrl'>): boolean {
  return publicBaseUrl?.startsWith('https:') ?? false;
}
