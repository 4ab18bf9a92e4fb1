/** Truncates a text that a message quotes from a request, to a length in UTF-16 code units. */
export const shorten = (text: string, length = 100): string =>
  text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text;
