/**
 * Removes the port that some proxies add to an address in `X-Forwarded-For`, such as `198.51.100.1:50001` or
 * `[2001:db8::1]:4711` (RFC 7239, section 6), and the brackets.
 */
export function withoutPort(address: string): string {
  const [, ipv4, ipv6] = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/.exec(address) ?? [];
  return ipv4 ?? ipv6 ?? address;
}
