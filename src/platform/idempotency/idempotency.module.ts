import { Module } from '@nestjs/common';
import { IdempotencyRecordsCleanup } from './idempotency-records-cleanup.js';

/** Deletes the records of Idempotency-Keys once they have expired. */
@Module({ providers: [IdempotencyRecordsCleanup] })
export class IdempotencyModule {}
