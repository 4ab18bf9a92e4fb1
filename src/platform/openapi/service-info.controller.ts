import { Controller, Get, Inject, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../auth/public.decorator.js';
import { CONFIG, type Config } from '../config/config.js';
import { VERSION } from '../config/version.js';
import { API_PREFIX } from './openapi-document.js';

/** What `GET /` returns. The links are paths at the public address of the service. */
export interface ServiceInfo {
  readonly name: string;
  readonly version: string;
  readonly links: Readonly<Record<'api' | 'docs' | 'openapi' | 'liveness' | 'readiness', string>>;
}

/** Tells who opens the address of the service what it is. It is not part of the API. */
@ApiExcludeController()
@Controller({ version: VERSION_NEUTRAL })
export class ServiceInfoController {
  private readonly info: ServiceInfo;

  constructor(@Inject(CONFIG) { publicBaseUrl }: Config) {
    // A proxy may serve the service under a path prefix.
    const prefix =
      publicBaseUrl === undefined
        ? ''
        : new URL(publicBaseUrl).pathname.slice(0, -API_PREFIX.length);
    this.info = {
      name: 'Petstore',
      version: VERSION,
      links: {
        api: `${prefix}${API_PREFIX}`,
        docs: `${prefix}/docs`,
        openapi: `${prefix}/openapi.json`,
        liveness: `${prefix}/livez`,
        readiness: `${prefix}/readyz`,
      },
    };
  }

  /** Returns the name and the version of the service, and links to its documentation and health checks. */
  @Public()
  @Get()
  getServiceInfo(): ServiceInfo {
    return this.info;
  }
}
