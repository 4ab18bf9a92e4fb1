import { isIP, SocketAddress } from 'node:net';
import { withoutPort } from '../http/server/without-port.js';

/**
 * Returns the client that an address belongs to. An IPv6 client has a whole /64 (RFC 4291, section
 * 2.5.4), so all of it counts as one. All invalid addresses, which a proxy may send, count as one, too.
 */
export function toClient(address = ''): string {
  const [withoutZone = ''] = withoutPort(address).split('%');
  if (isIP(withoutZone) !== 6) return isIP(withoutZone) === 4 ? withoutZone : '';
  const canonical = new SocketAddress({ address: withoutZone, family: 'ipv6' }).address;
  const [, ipv4] = /^::ffff:([\d.]+)$/.exec(canonical) ?? [];
  if (ipv4 !== undefined) return ipv4;
  const groups = canonical.split(':').filter(Boolean).length;
  const expanded = canonical.replace('::', `:${'0:'.repeat(8 - groups)}`);
  return expanded.split(':').filter(Boolean).slice(0, 4).join(':');
}
