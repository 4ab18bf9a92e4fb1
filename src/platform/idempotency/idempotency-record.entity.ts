import { Column, Entity, Index, PrimaryColumn } from 'typeorm';
import { bigintTransformer, epochMillisTransformer } from '../database/statements/columns.js';

/** The response of a request that had an Idempotency-Key, stored in the same transaction as what it changed. */
@Entity('idempotency_records')
@Index('ix_idempotency_records_created_at', ['createdAt'])
export class IdempotencyRecord {
  /** The id of the API key of the client: clients choose their keys independently. */
  @PrimaryColumn('bigint', {
    name: 'api_key_id',
    primaryKeyConstraintName: 'pk_idempotency_records',
    transformer: bigintTransformer,
  })
  apiKeyId!: number;

  @PrimaryColumn('varchar', { length: 255, primaryKeyConstraintName: 'pk_idempotency_records' })
  key!: string;

  /** Identifies the request: an HMAC-SHA-256, in hex. */
  @Column('varchar', { length: 64 })
  fingerprint!: string;

  @Column('text')
  response!: string;

  /** On PostgreSQL, a trigger replaces it by the time of the database. */
  @Column('bigint', { name: 'created_at', transformer: epochMillisTransformer })
  createdAt!: Date;
}
