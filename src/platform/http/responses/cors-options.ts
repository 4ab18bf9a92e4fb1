import type { Config } from '../../config/config.js';

/** The CORS options for pages of `CORS_ORIGINS`: the methods and headers that they may send and read. */
export const corsOptions = ({ corsOrigins }: Config) => ({
  origin: [...corsOrigins],
  methods: 'GET,HEAD,POST,PUT,PATCH,DELETE',
  // Tracing in the browser adds traceparent to every request (W3C Trace Context).
  allowedHeaders:
    'Authorization,Content-Type,Idempotency-Key,If-Match,If-None-Match,X-Request-Id,traceparent',
  exposedHeaders:
    'Allow,ETag,Idempotency-Replayed,Link,Location,X-Request-Id,Deprecation,Sunset,RateLimit' +
    ',RateLimit-Policy,Retry-After,WWW-Authenticate',
  // How long a browser caches a preflight response, in seconds.
  maxAge: 600,
});
