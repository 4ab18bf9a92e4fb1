import { randomUUID } from 'node:crypto';

/** The largest value of the counter, in 12 bits. */
const MAX_COUNTER = 0xfff;

/** The time of the newest UUID, in milliseconds since 1970, and what orders those of one millisecond. */
let time = 0;
let counter = 0;

/**
 * Creates a UUID of version 7 (RFC 9562, section 5.7). It is greater than all that this process has created before,
 * also if the clock is set back: a counter follows the time (section 6.2, method 1), and when it overflows, the time
 * runs ahead of the clock.
 */
export function createUuid(): string {
  const random = randomUUID();
  const now = Date.now();
  if (now > time) {
    time = now;
    counter = Number.parseInt(random.slice(0, 2), 16);
  } else if (++counter > MAX_COUNTER) {
    time++;
    counter = 0;
  }
  const hex = time.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${counter.toString(16).padStart(3, '0')}${random.slice(18)}`;
}
