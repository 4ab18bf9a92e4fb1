import { Column, Entity, PrimaryGeneratedColumn, Unique } from 'typeorm';
import { epochMillisTransformer } from '../database/columns.js';

/** An API key as it is kept: the key itself is nowhere, only its hash. */
@Entity('api_keys')
@Unique('uq_api_keys_hash', ['hash'])
export class ApiKey {
  @PrimaryGeneratedColumn({ type: 'bigint', primaryKeyConstraintName: 'pk_api_keys' })
  id!: number;

  /** Who or what uses the key. */
  @Column('varchar', { length: 100 })
  name!: string;

  /** SHA-256 of the key, in lower case hex. A fast hash will do: the key is 256 random bits. */
  @Column('varchar', { length: 64 })
  hash!: string;

  @Column('bigint', { name: 'created_at', transformer: epochMillisTransformer })
  createdAt!: Date;

  @Column('bigint', { name: 'expires_at', nullable: true, transformer: epochMillisTransformer })
  expiresAt!: Date | null;

  @Column('bigint', { name: 'revoked_at', nullable: true, transformer: epochMillisTransformer })
  revokedAt!: Date | null;

  /** To the minute, so that a busy key costs one write a minute. */
  @Column('bigint', { name: 'last_used_at', nullable: true, transformer: epochMillisTransformer })
  lastUsedAt!: Date | null;
}
