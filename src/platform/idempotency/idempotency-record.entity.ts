import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** The response of a request that had an Idempotency-Key, stored in the same transaction as what it changed. */
@Entity('idempotency_records')
@Index('ix_idempotency_records_created_at', ['createdAt'])
export class IdempotencyRecord {
  /** The id of the API key of the client: clients choose their keys independently. The driver of PostgreSQL reads a string. */
  @PrimaryColumn('bigint', {
    name: 'api_key_id',
    primaryKeyConstraintName: 'pk_idempotency_records',
  })
  apiKeyId!: number | string;

  @PrimaryColumn('varchar', {
    name: 'key',
    length: 255,
    primaryKeyConstraintName: 'pk_idempotency_records',
  })
  value!: string;

  /** Identifies the request: an HMAC-SHA-256, in hex. */
  @Column('varchar', { length: 64 })
  fingerprint!: string;

  @Column('text')
  response!: string;

  /** In milliseconds since 1970 UTC. On PostgreSQL, a trigger replaces it by the time of the database. */
  @Column('bigint', { name: 'created_at' })
  createdAt!: number | string;
}
