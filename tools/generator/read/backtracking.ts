import { checkSync, type Diagnostics } from 'recheck';

/** The maximum number of steps for a text, which take about 0.1 s. */
const MAX_STEPS = 10 ** 7;

const results = new Map<string, Diagnostics>();

/**
 * Returns how the time that a pattern takes grows with the text, such as `2nd degree polynomial`, if a text of at most
 * `maxLength` characters can take too long.
 */
export function findBacktracking(pattern: string, maxLength = Infinity): string | undefined {
  // The default backends need Java or a native binary.
  process.env['RECHECK_SYNC_BACKEND'] = 'pure';
  const result = results.get(pattern) ?? checkSync(pattern, isUnicode(pattern) ? 'u' : '');
  results.set(pattern, result);
  if (result.status !== 'vulnerable') return undefined;
  const { complexity } = result;
  if (complexity.type === 'polynomial' && maxLength ** complexity.degree <= MAX_STEPS)
    return undefined;
  return complexity.summary;
}

/** Returns whether `toRegExp` compiles a pattern with the flag `u`. */
function isUnicode(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u').unicode;
  } catch {
    return false;
  }
}
