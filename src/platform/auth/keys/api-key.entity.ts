import { Column, Entity, Unique } from 'typeorm';
import {
  bigintTransformer,
  epochMillisTransformer,
  IdColumn,
} from '../../database/statements/columns.js';

export const SCOPES = ['read', 'write'] as const;
export type Scope = (typeof SCOPES)[number];

/** An API key. Only its hash is stored. */
@Entity('api_keys')
@Unique('uq_api_keys_hash', ['hash'])
export class ApiKey {
  @IdColumn('pk_api_keys')
  id!: number;

  @Column('varchar', { length: 100 })
  name!: string;

  /** The SHA-256 of the key, in lower-case hex. A fast hash is sufficient: the key is 256 random bits. */
  @Column('varchar', { length: 64 })
  hash!: string;

  /** The scopes of the key, separated by spaces, as in OAuth 2.0 (RFC 6749, section 3.3). */
  @Column('varchar', { length: 20, default: 'read write' })
  scopes!: string;

  /** The rate limit of the key; if null, `KEY_REQUESTS_PER_MINUTE` applies. */
  @Column('integer', { name: 'requests_per_minute', nullable: true })
  requestsPerMinute!: number | null;

  @Column('bigint', { name: 'created_at', transformer: epochMillisTransformer })
  createdAt!: Date;

  @Column('bigint', { name: 'expires_at', nullable: true, transformer: epochMillisTransformer })
  expiresAt!: Date | null;

  @Column('bigint', { name: 'revoked_at', nullable: true, transformer: epochMillisTransformer })
  revokedAt!: Date | null;

  /** The id of the key that replaced this one when it was rotated. */
  @Column('bigint', { name: 'successor_id', nullable: true, transformer: bigintTransformer })
  successorId!: number | null;

  /** Written at most once an hour. */
  @Column('bigint', { name: 'last_used_at', nullable: true, transformer: epochMillisTransformer })
  lastUsedAt!: Date | null;
}
