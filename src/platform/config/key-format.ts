// Default imports, because Node 18 has neither hash nor crc32, and would fail before the check of its version.
import crypto from 'node:crypto';
import zlib from 'node:zlib';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** `SECURITY.md` publishes this expression, with the prefix, for secret scanners. */
const KEY = /^(([0-9A-Za-z]+)_[0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

/**
 * Generates an API key that secret scanners recognise: a prefix, `_`, 256 random bits in base62, and the CRC-32 of
 * what precedes it in six base62 digits, as in GitHub's tokens
 * (https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/).
 */
export function generateKey(prefix: string): string {
  const random = BigInt(`0x${crypto.randomBytes(32).toString('hex')}`);
  const text = `${prefix}_${toBase62(random, 43)}`;
  return text + getChecksum(text);
}

/**
 * Whether a key has the format of a generated one but not its checksum: it was mistyped, and cannot exist.
 * Keys in other formats, such as those of earlier versions, cannot be recognised.
 */
export function isMistyped(key: string, prefixes: readonly string[]): boolean {
  const [, text, prefix, checksum] = KEY.exec(key) ?? [];
  if (text === undefined || !prefixes.includes(prefix!)) return false;
  return getChecksum(text) !== checksum;
}

/** Returns the SHA-256 of a key, in lower-case hex. */
export function hashKey(key: string): string {
  return crypto.hash('sha256', key);
}

function getChecksum(text: string): string {
  return toBase62(BigInt(zlib.crc32(text)), 6);
}

function toBase62(value: bigint, length: number): string {
  let digits = '';
  for (let rest = value; rest > 0n; rest /= 62n) digits = BASE62[Number(rest % 62n)]! + digits;
  return digits.padStart(length, '0');
}
