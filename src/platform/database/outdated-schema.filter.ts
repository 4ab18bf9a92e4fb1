import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { QueryFailedError } from 'typeorm';
import { respondWithError } from '../http/responses/error.filter.js';
import { namesMissingObject } from './connection/driver-errors.js';
import { PetstoreDataSource } from './connection/petstore-data-source.js';

/** Responds with 503 to a request that needs a table or a column whose migration was reverted. */
@Catch(QueryFailedError)
export class OutdatedSchemaFilter implements ExceptionFilter {
  constructor(@InjectDataSource() private readonly dataSource: PetstoreDataSource) {}

  async catch(error: unknown, host: ArgumentsHost): Promise<void> {
    const http = host.switchToHttp();
    let reported = error;
    if (namesMissingObject(error))
      await this.dataSource.reportOutdatedSchema().catch((outage: unknown) => (reported = outage));
    respondWithError(reported, http.getRequest(), http.getResponse());
  }
}
