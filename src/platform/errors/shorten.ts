/**
 * Cuts what a message quotes of a request, which may be as long as the request.
 *
 * @param length the maximum, in UTF-16 code units
 */
export const shorten = (text: string, length = 100): string =>
  text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text;
