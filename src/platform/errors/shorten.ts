/** Cuts what a message quotes of a request to a length in UTF-16 code units: it may be as long as the request. */
export const shorten = (text: string, length = 100): string =>
  text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text;
