type Headers = Record<string, { readonly description: string; readonly schema: object }>;

const METADATA = 'platform:response-headers';

/** Declares headers of the successful response of an operation, with which `@Operation` documents it. */
export const ApiResponseHeaders =
  (headers: Readonly<Headers>): MethodDecorator =>
  (_target, _name, { value }) => {
    Object.assign(getResponseHeaders(value as object), headers);
  };

/** Returns the headers that the decorators of a handler declare, also those that are applied later. */
export function getResponseHeaders(handler: object): Headers {
  const headers = (Reflect.getMetadata(METADATA, handler) ?? {}) as Headers;
  Reflect.defineMetadata(METADATA, headers, handler);
  return headers;
}
