import { randomUUID } from 'node:crypto';

/** The time of the newest UUID, in milliseconds since 1970, and its counter of 12 bits, which order UUIDs. */
let newest = 0n;

/**
 * Creates a UUID of version 7 (RFC 9562, section 5.7). It is greater than all that this process has created before,
 * also if the clock is set back: a counter follows the time (section 6.2, method 1), and when it overflows, the time
 * runs ahead of the clock.
 */
export function createUuid(): string {
  const random = randomUUID();
  // The counter begins with 8 random bits.
  const now = (BigInt(Date.now()) << 12n) + BigInt(`0x${random.slice(0, 2)}`);
  newest = now > newest ? now : newest + 1n;
  const hex = newest.toString(16).padStart(15, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(12)}${random.slice(18)}`;
}
