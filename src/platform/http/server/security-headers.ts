import type { RequestHandler } from 'express';
import helmet from 'helmet';
import type { Config } from '../../config/config.js';

/** Seconds for which a browser asks by HTTPS only (RFC 6797): a year. */
const HSTS_MAX_AGE = 31_536_000;

/**
 * What every answer has, made once: helmet takes 7 us a request to say the same. JSON is no page: it
 * may load nothing, nothing may frame it, and no browser may take it for something else. HTTPS is for
 * the proxy to speak, and over HTTP its header is forbidden (RFC 6797, section 7.2), so the public
 * address decides.
 */
export function apiSecurityHeaders(
  config: Pick<Config, 'publicBaseUrl'>,
): readonly (readonly [name: string, value: string])[] {
  const headers: [string, string][] = [
    ['X-Content-Type-Options', 'nosniff'],
    ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
  ];
  if (isHttps(config)) headers.push(['Strict-Transport-Security', `max-age=${HSTS_MAX_AGE}`]);
  return headers;
}

/** The headers of Swagger UI, which is a page: it loads its own files, and asks the deployments of the document. */
export function swaggerUiHeaders(config: Config): RequestHandler {
  const { publicBaseUrl, stagingBaseUrl = publicBaseUrl } = config;
  return helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        // The page of @nestjs/swagger has two style elements and a style attribute.
        styleSrc: ["'self'", "'unsafe-inline'"],
        // Swagger UI's style sheet has icons of its own as data.
        imgSrc: ["'self'", 'data:'],
        fontSrc: ["'self'", 'data:'],
        connectSrc: [
          "'self'",
          ...new Set([publicBaseUrl, stagingBaseUrl].map((url) => new URL(url).origin)),
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
    // Browsers mind it over HTTPS only, and say so on the console otherwise.
    crossOriginOpenerPolicy: isHttps(config),
    originAgentCluster: isHttps(config),
    referrerPolicy: { policy: 'no-referrer' },
    xFrameOptions: { action: 'deny' },
  });
}

function isHttps({ publicBaseUrl }: Pick<Config, 'publicBaseUrl'>): boolean {
  return publicBaseUrl.startsWith('https:');
}
